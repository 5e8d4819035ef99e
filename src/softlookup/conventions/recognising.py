"""From a dense mask back to the rules that made it: causal, a window, padding, documents, a prefix, chunks.

A dense tensor can only be handed on as a tensor; the rules behind it have flags, lengths and kernels that
skip what is hidden. Rules are guessed from a few rows and the diagonals, and the guess is held against every
entry, in pieces that stay in the cache: what comes out is the mask, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import and_

import torch
from torch import Tensor

from softlookup.conventions.marks import Marks, first_and_last
from softlookup.conventions.parts import at_one_end
from softlookup.conventions.tensors import as_words
from softlookup.masks import (
    AllOf,
    Given,
    Mask,
    causal,
    chunked,
    documents,
    packed,
    padding,
    prefix_lm,
    sliding_window,
)
from softlookup.terms import Corner

_AT_ONCE = 1 << 20  # entries that are compared at a time: they, and what they should be, stay in the cache
_SAMPLED = 1 << 22  # entries of the rows that are guessed from; a mask of no more is looked at as a whole
_FEWEST_CHUNKS = 3  # documents of one length are called chunks from here on


def recognise(marked: Tensor, *, hides: bool = False) -> Mask | None:
    """Return the rules that show exactly what a tensor shows, or None when no combination of them does.

    marked: bool [B or 1, H or 1, T_q or 1, T_k or 1], True = may look; no copy of it is made
    hides: True = hidden

    Found are causal, sliding windows, padding and hidden keys of any pattern, packed documents, prefixes and
    chunks, and what ``&`` makes of a rule of positions, documents and hidden keys. Heads must be alike.

    >>> allowed = torch.ones(1, 1, 4, 4, dtype=torch.bool).tril()
    >>> recognise(allowed)
    causal()
    >>> recognise(allowed & torch.tensor([True, True, True, False]))
    causal() & padding(3)
    >>> recognise(~allowed, hides=True)
    causal()
    """
    if 0 in marked.shape:
        return None
    q_len, k_len = marked.shape[-2:]
    marks = Marks(_without_repeats(marked), hides)
    sample = _Sample.of(marks, q_len, k_len)
    for guess in _guesses(marks, sample, q_len, k_len):
        if sample.fits(guess) and _is_exactly(guess, marks, q_len, k_len):
            return guess
    return None


def _is_exactly(mask: Mask, marks: Marks, q_len: int, k_len: int) -> bool:
    """Say whether a mask shows exactly what marks show, entry by entry, without a tensor of their size."""
    rows = marks.marked.shape[-2]
    parts = mask.parts if isinstance(mask, AllOf) else (mask,)
    at_once = _AT_ONCE // k_len
    if any({"B", "T_q"} <= part.axes for part in parts):  # its answer repeats nothing
        at_once //= marks.marked.shape[0]
    starts = range(0, rows, max(1, at_once))
    return all(
        _is_exactly_in(slice(start, start + starts.step), parts, marks, q_len, k_len) for start in starts
    )


def _is_exactly_in(rows: slice, parts: tuple[Mask, ...], marks: Marks, q_len: int, k_len: int) -> bool:
    """Compare some rows, sample by sample; what a part says to all samples is computed once."""
    i = torch.arange(rows.start, min(rows.stop, marks.marked.shape[-2]))
    answers = [part._answer(i, q_len, k_len)[:, 0] for part in parts]  # each [B or 1, r, T_k]
    alike = reduce(and_, (it[0] for it in answers if len(it) == 1), torch.ones(1, 1, dtype=torch.bool))
    own = [it for it in answers if len(it) > 1]
    found = marks.marked[:, :, rows]
    wanted = (
        reduce(and_, (it[sample] for it in own), alike) for sample in range(max(map(len, [found, *own])))
    )
    return all(_equal(marks.turned(it), found[min(n, len(found) - 1)]) for n, it in enumerate(wanted))


def _without_repeats(allowed: Tensor) -> Tensor:
    """Return a view in which an axis along which memory repeats is 1."""
    for axis in range(4):
        if allowed.stride(axis) == 0:
            allowed = allowed.narrow(axis, 0, 1)
    return allowed.detach()


def _equal(wanted: Tensor, found: Tensor) -> bool:
    """Compare two bool tensors that broadcast to each other, eight entries at a time where memory allows."""
    words = [as_words(it) for it in (wanted, found)]
    if words[0] is not None and words[1] is not None and words[0].shape[-1] == words[1].shape[-1]:
        wanted, found = words[0], words[1]
    shape = torch.broadcast_shapes(wanted.shape, found.shape)  # type: ignore[no-untyped-call]
    return torch.equal(wanted.to(found.device).expand(shape), found.expand(shape))


@dataclass(frozen=True)
class _Sample:
    """Some rows of some samples, on which wrong guesses fail without a look at the rest.

    rows: [r] which queries; samples: [b] which samples; visible: bool [b, h, r, T_k or 1]
    """

    rows: Tensor
    samples: Tensor
    visible: Tensor
    q_len: int
    k_len: int

    @classmethod
    def of(cls, marks: Marks, q_len: int, k_len: int) -> _Sample:
        """Take rows that lie evenly, first and last among them; all where there are few entries."""
        B, H, rows, width = marks.marked.shape
        samples, heads = _evenly(B, 32), _evenly(H, 4)
        number = _SAMPLED // (len(samples) * len(heads) * width)
        which = _evenly(rows, max(4, number))
        if marks.marked.numel() > _SAMPLED:
            which = _evenly(rows, max(4, min(number, 64)))
        visible = marks.visible(samples[:, None, None], heads[:, None], which)
        return cls(which, samples, visible.cpu(), q_len, k_len)

    def fits(self, mask: Mask) -> bool:
        """Say whether a mask shows what the sampled rows show."""
        answer = mask._answer(self.rows, self.q_len, self.k_len)
        answer = answer[self.samples] if answer.shape[0] > 1 else answer
        return _equal(answer, self.visible)

    def farthest(self) -> tuple[int, int] | None:
        """Return the lowest and the highest j - i of a visible key; None when no key is visible."""
        seeing = self.visible.any(dim=-1)  # [b, h, r]
        if not bool(seeing.any()):
            return None
        first, last = first_and_last(self.visible)
        return int((first - self.rows)[seeing].min()), int((last - self.rows)[seeing].max())


def _evenly(size: int, at_most: int) -> Tensor:
    """Return at most so many of 0 ... size - 1, in order, both ends among them."""
    if size <= at_most:
        return torch.arange(size)
    return torch.linspace(0, size - 1, at_most, dtype=torch.float64).round().long().unique_consecutive()  # type: ignore[no-any-return, no-untyped-call]


def _guesses(marks: Marks, sample: _Sample, q_len: int, k_len: int) -> Iterator[Mask]:
    """Yield what the mask may be, the simplest first."""
    rows, width = marks.marked.shape[-2:]
    yield Given(torch.ones(1, 1, 1, 1, dtype=torch.bool))
    if width != k_len:  # one entry that stands for all keys, and not all is visible: no rule says that
        return
    keys = _seen_by_somebody(marks).cpu()
    yield _hiding_keys(keys)
    far = sample.farthest()
    if rows != q_len or far is None:
        return
    bands = list(_bands(*far, q_len, k_len))
    for low, high, rule in bands:
        yield _and(rule, _beyond_reach_alike(keys, low, high, q_len))
    for rule in _prefixes(marks.visible(slice(None), 0, 0).cpu(), q_len, k_len):
        yield _and(rule, _beyond_reach_alike(keys, -q_len, far[1], q_len))
    if q_len == k_len > 1:
        starts = _starts_of_documents(marks, keys)
        yield from (_and(rule, keys) for rule in _chunks(starts))
        apart = _documents(starts)
        yield _and(apart, keys)
        yield from (_and(apart & rule, keys) for _, _, rule in bands)


def _bands(low: int, high: int, q_len: int, k_len: int) -> Iterator[tuple[int, int, Mask]]:
    """Yield causal rules and windows that fit the farthest visible keys, as low, high, rule."""
    corners: dict[Corner, int] = {"top-left": 0, "bottom-right": k_len - q_len}
    if q_len == k_len:
        del corners["bottom-right"]
    yield from ((-q_len, own, causal(corner)) for corner, own in corners.items())
    for corner, own in corners.items():
        if low <= own:
            yield low, own, sliding_window(own - low + 1, corner=corner)
        reach = max(own - low, high - own)
        if reach >= 0:
            yield own - reach, own + reach, sliding_window(reach, "each side", corner)


def _beyond_reach_alike(keys: Tensor, low: int, high: int, q_len: int) -> Tensor:
    """Return keys, where those that the band hides from everybody are like the nearest one it does not."""
    first, stop = max(0, low), min(keys.shape[-1], q_len + high)
    if first >= stop:
        return torch.ones_like(keys)
    j = torch.arange(keys.shape[-1]).clamp(first, stop - 1)
    return keys[:, j]


def _prefixes(first_row: Tensor, q_len: int, k_len: int) -> Iterator[Mask]:
    """Yield the rules under which the first query sees further than itself: bool [B, T_k] is what it sees."""
    j = torch.arange(1, k_len + 1)
    stop = (first_row * j).amax(dim=-1)  # [B]: one behind the last key that query 0 sees
    lengths = stop.tolist() if len(stop) > 1 else int(stop)
    yield prefix_lm(lengths)
    if q_len != k_len:
        own = k_len - q_len + 1
        behind = torch.where(stop > own, stop, 0)
        yield prefix_lm(behind.tolist() if len(stop) > 1 else int(behind), "bottom-right")
    if bool((stop == stop[0]).all()) and int(stop[0]):
        yield chunked(int(stop[0]), "own and earlier chunks")


def _seen_by_somebody(marks: Marks) -> Tensor:
    """Return which keys some query sees: bool [B, T_k].

    Of a large one the rows at the ends and the diagonals are asked: every key appears there that a rule of
    positions does not hide from all.
    """
    marked = marks.marked[:, 0]  # [B, T_q, T_k]
    if marked.numel() <= _SAMPLED:
        return marks.turned(marked).any(dim=1)
    keys = marks.turned(marked[:, 0]) | marks.turned(marked[:, -1])
    for offset in {0, marked.shape[-1] - marked.shape[-2]} if marked.shape[1] > 1 else ():
        own = marks.beside(offset)[:, 0]
        keys[:, max(0, offset) : max(0, offset) + own.shape[-1]] |= own
    return keys


def _starts_of_documents(marks: Marks, keys: Tensor) -> Tensor:
    """Return where a token does not see the last real token before it: bool [B, T], True at the start."""
    B, T = keys.shape
    real = torch.where(keys, torch.arange(T), -1).cummax(dim=-1).values[:, :-1]  # for tokens 1 to T - 1
    sample, token = torch.arange(B)[:, None], torch.arange(1, T)
    sees = marks.visible(sample, 0, token, real.clamp(min=0)).cpu()
    return torch.cat([torch.ones(B, 1, dtype=torch.bool), ~sees & (real >= 0)], dim=1)


def _documents(starts: Tensor) -> Mask:
    if bool((starts == starts[:1]).all()):
        return packed([*starts[0].nonzero()[:, 0].tolist(), starts.shape[-1]])
    return documents(starts.long().cumsum(dim=-1) - 1)


def _chunks(starts: Tensor) -> Iterator[Mask]:
    """Yield chunks where the documents are alike in all samples, and of one length but for the last."""
    bounds = [*starts[0].nonzero()[:, 0].tolist(), starts.shape[-1]]
    lengths = [stop - start for start, stop in pairwise(bounds)]
    regular = len(set(lengths[:-1])) == 1 and lengths[-1] <= lengths[0] and lengths[0] > 1
    if len(lengths) >= _FEWEST_CHUNKS and regular and bool((starts == starts[:1]).all()):
        yield chunked(lengths[0])
        yield chunked(lengths[0], "own chunk")


def _and(rule: Mask, keys: Tensor) -> Mask:
    return rule if bool(keys.all()) else AllOf.of(rule, _hiding_keys(keys))


def _hiding_keys(keys: Tensor) -> Mask:
    """Return bool [B, T_k], True = visible, as padding where all that is hidden lies at one end."""
    counts = keys.sum(dim=-1)
    lengths = counts.tolist() if len(counts) > 1 else int(counts)
    first_ones, last_ones = at_one_end(keys)
    if bool(first_ones.all()):
        return padding(lengths)
    if bool(last_ones.all()):
        return padding(lengths, "left")
    return Given(keys[:, None, None].clone())
