"""A mask as assertions look at it: read from whatever was given, with its lengths, one row at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from softlookup.conventions.converting import read_mask, sizes_of
from softlookup.conventions.spelling import Sizes
from softlookup.masks import Given, Mask
from softlookup.masks.accept import whole_number
from softlookup.terms import SoftlookupError
from softlookup.testing.drawn_rows import drawn_row, listed

INVERTED = (
    "the mask looks inverted: is it a blocked mask? Then say so: source='blocked_mask', "
    "or source='nn.MultiheadAttention'"
)


@dataclass(frozen=True)
class Place:
    """One query; None: in every sample, in every head."""

    query: int
    batch: int | None = None
    head: int | None = None


@dataclass(frozen=True, eq=False)
class Looked:
    """A mask that was read, and its lengths."""

    mask: Mask
    q_len: int
    k_len: int
    unsaid: bool  # nobody said what True means

    @cached_property
    def dense(self) -> Tensor:
        """Bool [B or 1, H or 1, T_q, T_k]."""
        return self.mask.dense(self.q_len, self.k_len).cpu()

    @property
    def is_unsaid_tensor(self) -> bool:
        """Say whether this is a tensor of which nobody said what True means."""
        return self.unsaid and isinstance(self.mask, Given)

    @property
    def looks_inverted(self) -> bool:
        """Say whether True may mean hidden: nobody said what it means, and no query sees its own key."""
        if not self.is_unsaid_tensor or not self.q_len == self.k_len > 1:
            return False
        return not bool(self.dense.diagonal(dim1=-2, dim2=-1).any())

    def compare(self, place: Place, wrong: Callable[[Tensor], Tensor], says: str) -> None:
        """Raise at the first sample and head in whose row [T_k] some key is wrong."""
        __tracebackhide__ = True
        query = torch.tensor([place.query], device=self.mask._home())
        rows = self.mask._answer(query, self.q_len, self.k_len)[:, :, 0].cpu()
        samples = _asked("batch", place.batch, len(rows))
        for batch, head in itertools.product(samples, _asked("head", place.head, rows.shape[1])):
            row = rows[batch, head]
            at = wrong(row).nonzero()[:, 0].tolist()
            if at:
                lines = [f"{self.named(place.query, batch, head)} {says}; it sees {listed(row)}"]
                lines += drawn_row(row, mark=at, label="wrong")
                lines += self._why_hidden(place.query, [key for key in at if not row[key]][:1], batch, head)
                opposite = self.looks_inverted or (self.is_unsaid_tensor and len(at) == len(row) > 1)
                raise AssertionError("\n  ".join([*lines, *([INVERTED] if opposite else [])]))

    def _why_hidden(self, query: int, keys: list[int], batch: int, head: int) -> list[str]:
        lengths = {"q_len": self.q_len, "k_len": self.k_len}
        if isinstance(self.mask, Given):
            return []  # a tensor has no reasons
        return [self.mask.explain(query, key, **lengths, batch=batch, head=head) for key in keys]

    def named(self, query: int, batch: int, head: int) -> str:
        """Name a query, with its sample and head where they differ."""
        where = [f"sample {batch}"] * ("B" in self.mask.axes) + [f"head {head}"] * ("H" in self.mask.axes)
        return f"query {query}" + (f" of {', '.join(where)}" if where else "")


def look(
    mask: Any,
    source: str | None,
    lengths: tuple[int | None, int | None],
    asked: tuple[int, tuple[int, ...]] | None = None,
    *,
    square: bool = False,
) -> Looked:
    """Read a mask and find its lengths.

    asked: the query and the keys that must lie inside
    square: there are as many queries as keys where nobody says otherwise

    Raises: SoftlookupError for what is no mask, lengths that nobody said, and places outside.
    """
    given = Sizes(*lengths)
    read = read_mask(mask, source or "allowed_mask", given).mask
    sizes = sizes_of(read, given)
    query, keys = asked or (0, ())
    whole_number("query", query, at_least=0)
    for key in keys:
        whole_number("key", key, at_least=0)
    least = max((query, *keys)) + 1 if asked else None
    k_len = sizes.k_len or (max(least, read._least_k_len()) if least else sizes.of("k_len", "this mask"))
    q_len = (
        sizes.q_len
        or least
        or (k_len if square or "T_q" not in read.axes else sizes.of("q_len", "this mask"))
    )
    if query >= q_len or any(key >= k_len for key in keys):
        raise SoftlookupError(
            "masks: there is no such place in this mask.",
            expected=f"query < T_q = {q_len} and key < T_k = {k_len}",
            got=f"query {query}, {'keys' if len(keys) > 1 else 'key'} {', '.join(map(str, keys))}",
        )
    read._check(q_len, k_len)
    return Looked(read, q_len, k_len, unsaid=source is None)


def _asked(axis: str, number: int | None, size: int) -> range:
    """Return the samples or heads to look at; a mask that is the same for all answers for each."""
    if number is None:
        return range(size)
    if whole_number(axis, number, at_least=0) >= size > 1:
        raise SoftlookupError(
            f"masks: there is no {axis} {number} in this mask.", expected=f"0 to {size - 1}", got=str(number)
        )
    return range(min(number, size - 1), min(number, size - 1) + 1)


def first_row(found: Tensor) -> tuple[int, int, int] | None:
    """Return (batch, head, query) of the first row of bool [B, H, T_q, T_k] with a True, or None."""
    rows = found.any(dim=-1).nonzero()
    return tuple(rows[0].tolist()) if len(rows) else None
