"""Masks as spans: for each query the sorted, disjoint intervals of keys that it sees, without a dense tensor.

Most rules show every query one interval; a few intervals are left when rules are combined. Lists of intervals
can be combined like the masks themselves, so spans are found leaf by leaf, up the tree:

    a & b   every interval of a with every interval of b: what they have in common
    ~a      the gaps
    a | b   ~(~a & ~b), which also joins neighbours

Inside this module spans are (first, stop), each [layers, B or 1, T_q or 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import torch
from torch import Tensor

from softlookup.masks.algebra import AllOf, AnyOf, Given, Mask, Opposite
from softlookup.masks.discover import rule_file
from softlookup.masks.rule import Rule
from softlookup.masks.runs import runs_of_true

_MOST_BETWEEN = 8  # a & b may have fewer intervals than a, so more are kept on the way

_Ends: TypeAlias = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Spans:
    """The keys that each query sees: layer n of a query is ``first[n] <= key < stop[n]``.

    first, stop: int64 [layers, B or 1, T_q] on the CPU, at least one layer; they may be views that repeat
    rows. Layer n lies before layer n + 1, with a key between them. An empty layer has first == stop == k_len
    and stands last.
    """

    first: Tensor
    stop: Tensor
    k_len: int

    def counts(self) -> Tensor:
        """Return how many keys each query sees: int64 [B or 1, T_q]."""
        return (self.stop - self.first).sum(dim=0)

    def empty_rows(self) -> bool:
        """Say whether some query sees no key."""
        return bool((self.first[0] == self.stop[0]).any())


def spans_of(mask: Mask | None, q_len: int, k_len: int, *, at_most: int = 4) -> Spans | None:
    """Return the keys that each query sees as intervals; no mask is one interval of all keys.

    None: some query needs more than ``at_most`` intervals, heads differ, or a rule has no spans (dilated).

    Raises: SoftlookupError when the lengths do not fit the mask.

    >>> from softlookup.masks import causal, padding
    >>> spans = spans_of(causal() & padding(2), 3, 3)
    >>> spans.first.tolist(), spans.stop.tolist(), spans.counts().tolist()
    ([[[0, 0, 0]]], [[[1, 2, 2]]], [[1, 2, 2]])
    >>> spans_of(~causal(), 3, 3).empty_rows()
    True
    """
    if mask is None:
        ends: _Ends | None = _one(0, k_len, k_len)
    else:
        mask._check(q_len, k_len)
        ends = _Tree(q_len, k_len, max(at_most, _MOST_BETWEEN)).ends(mask)
    if ends is None or len(ends[0]) > at_most:
        return None
    first, stop = (end.expand(-1, -1, q_len) for end in ends)
    return Spans(first, stop, k_len)


@dataclass(frozen=True)
class _Tree:
    """One walk up a tree; a part whose spans cannot be told is None, and so is all that it is part of."""

    q_len: int
    k_len: int
    most: int

    def ends(self, mask: Mask) -> _Ends | None:
        """Return the spans of a mask, or None where they cannot be told or are too many."""
        match mask:
            case Rule():
                return self._of_rule(mask)
            case Given():
                return self._of_tensor(mask.allowed_mask)
            case Opposite():
                return self._gaps(self.ends(mask.part))
            case AllOf():
                return reduce(self._common, map(self.ends, mask.parts))
            case AnyOf():
                return self._gaps(reduce(self._common, (self._gaps(self.ends(part)) for part in mask.parts)))
        return None

    def _of_rule(self, rule: Rule) -> _Ends | None:
        file, values = rule_file(rule.name), rule.parameters
        if file.keys_only and file.span is None:
            found = runs_of_true(rule.dense(1, self.k_len, device="cpu")[:, 0, 0], self.most)
            return None if found is None else (found[0][..., None], found[1][..., None])
        i, sizes = torch.arange(self.q_len, device="cpu"), {"q_len": self.q_len, "k_len": self.k_len}
        if file.span is not None:
            for name in file.per_sample:
                if isinstance(values[name], tuple):  # [B] -> [B, 1]
                    values[name] = torch.tensor(values[name], device="cpu")[:, None]
            return _one(*file.span(i, **sizes, **values), self.k_len)
        if file.intervals is not None:
            values |= {name: values[name].cpu() for name in file.per_token}
            ends = file.intervals(i, **sizes, most=self.most, **values)
            return None if ends is None else self._tidy(*ends)
        return None

    def _of_tensor(self, allowed_mask: Tensor) -> _Ends | None:
        B, heads, rows, width = allowed_mask.shape
        found = runs_of_true(allowed_mask[:, 0].flatten(0, 1), self.most) if heads == 1 else None
        if found is None:
            return None
        each = self.k_len if width == 1 else 1  # one entry that stands for all keys
        first, stop = (end.view(-1, B, rows) * each for end in found)
        return first, stop

    def _common(self, a: _Ends | None, b: _Ends | None) -> _Ends | None:
        """Return the spans that are in a and in b."""
        if a is None or b is None:
            return None
        first = torch.maximum(a[0][:, None], b[0]).flatten(0, 1)
        stop = torch.minimum(a[1][:, None], b[1]).flatten(0, 1)
        return self._tidy(first, stop)

    def _gaps(self, ends: _Ends | None) -> _Ends | None:
        """Return the spans that are left between, before and behind spans."""
        if ends is None:
            return None
        edge = torch.zeros_like(ends[0][:1])
        return self._tidy(torch.cat([edge, ends[1]]), torch.cat([ends[0], edge + self.k_len]))

    def _tidy(self, first: Tensor, stop: Tensor) -> _Ends | None:
        """Sort the layers, empty ones last, and drop those that are empty for everybody."""
        nothing = first >= stop
        first, stop = first.masked_fill(nothing, self.k_len), stop.masked_fill(nothing, self.k_len)
        if len(first) > 1:  # disjoint, so that the firsts and the stops have one order
            first, stop = first.sort(dim=0).values, stop.sort(dim=0).values
            layers = max(1, int((first < self.k_len).flatten(1).any(dim=1).sum()))
            first, stop = first[:layers], stop[:layers]
        return (first, stop) if len(first) <= self.most else None


def _one(first: Tensor | int, stop: Tensor | int, k_len: int) -> _Ends:
    """Return one layer of numbers that fit [B, T_q], clipped to the keys that there are."""
    low, high = (torch.as_tensor(end, device="cpu").clamp(0, k_len) for end in (first, stop))
    first, stop = (torch.where(low < high, end, k_len) for end in (low, high))
    return first[(None,) * (3 - first.dim())], stop[(None,) * (3 - stop.dim())]
