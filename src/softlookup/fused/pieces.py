"""What a plan is made of: pieces, each one call of a fused kernel.

A piece is a block of queries beside the keys that some of them may look at:

    full       every query of the block sees every key of the piece              no mask
    triangle   query r of the block sees keys 0 to r, as far as there are keys   the causal flag
    mirrored   query r of the block sees keys r to the last of the piece         the flag, turned round
    tile       anything else                                                     a mask of the block's size

``count`` equal pieces, each moved on by as many queries and keys as the one before, are one call: they are
folded into the batch. Queries that stand in several pieces are merged by their log-sum-exp: see ``running``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

from torch import Tensor

Shape = Literal["full", "triangle", "mirrored", "tile"]

# Measured on a CPU with AVX-512: 2.3 ns for a logit of a large piece without a mask.
_CALL_IN_LOGITS = 60_000  # one more call costs as much as so many logits
_TILE_SURCHARGE = 1.25  # a mask is made, turned into numbers and added to every logit
_SKIPPED = 512  # the causal flag leaves out so many hidden keys at a time
_FEW_ROWS = 192  # below, the kernel works on 32 queries at a time instead of 64 or 256
_FEW_ROWS_SURCHARGE = 1.2


@dataclass(frozen=True)
class Piece:
    """One call: queries [q_start, q_start + q_len) beside the keys in ``runs``.

    samples: which samples of the batch; None: all
    runs: (start, stop) of neighbouring keys, in order
    layer: which of the intervals of a query the piece belongs to
    count, q_step, k_step: the same again, so many times, so much further
    """

    q_start: int
    q_len: int
    runs: tuple[tuple[int, int], ...]
    shape: Shape
    samples: tuple[int, ...] | None = None
    layer: int = 0
    count: int = 1
    q_step: int = 0
    k_step: int = 0

    def samples_of(self, batch: int) -> Sequence[int]:
        """Return the samples out of so many."""
        return range(batch) if self.samples is None else self.samples

    @property
    def k_len(self) -> int:
        """Keys beside each query."""
        return sum(stop - start for start, stop in self.runs)

    @property
    def logits(self) -> int:
        """Scores that the piece needs for one head and one sample."""
        hidden = self.k_len * (self.k_len - 1) // 2 if self.shape in ("triangle", "mirrored") else 0
        return self.count * (self.q_len * self.k_len - hidden)

    @property
    def cost(self) -> float:
        """Time for one head and one sample, in logits of a large piece without a mask."""
        surcharge = _TILE_SURCHARGE if self.shape == "tile" else 1.0
        computed = min(
            self.count * self.q_len * self.k_len, self.logits + self.count * self.q_len * _SKIPPED // 2
        )
        return computed * surcharge * (_FEW_ROWS_SURCHARGE if self.q_len < _FEW_ROWS else 1.0)


class Tiles(Protocol):
    """Where the mask of a piece comes from, once the piece is computed."""

    def tile(self, piece: Piece, like: Tensor) -> Tensor:
        """Return floats [B or 1, H or 1, q_len, k_len] on ``like``'s device and in its dtype; -inf hides."""


@dataclass(frozen=True)
class Plan:
    """All pieces of one attention call, in the order in which they are computed."""

    pieces: tuple[Piece, ...]
    tiles: Tiles | None  # None where no piece is a tile
    q_len: int
    k_len: int
    reason: str

    @property
    def seen_before(self) -> tuple[bool, ...]:
        """Say of each piece whether an earlier one has some of its queries."""
        return self._coverage[0]

    @cached_property
    def _has_all_queries(self) -> bool:
        """True when one piece has every query once, and all samples."""
        return len(self.pieces) == 1 and self.pieces[0].samples is None and self._whole(0)

    @cached_property
    def takes_all_keys(self) -> bool:
        """True when the first piece has every key once."""
        return len(self.pieces[0].runs) == 1 and self._whole(1)

    def is_one_call(self, batch: int) -> bool:
        """Say whether all is one call; folded pieces of several samples are views only one by one."""
        return self._has_all_queries and (batch == 1 or self.pieces[0].count == 1)

    def _whole(self, axis: int) -> bool:
        piece = self.pieces[0]
        start = (piece.q_start, piece.runs[0][0])[axis]
        length, step = ((piece.q_len, piece.q_step), (piece.k_len, piece.k_step))[axis]
        size = (self.q_len, self.k_len)[axis]
        return start == 0 and piece.count * length == size and (piece.count == 1 or step == length)

    def covers(self, batch: int) -> bool:
        """Say whether some piece writes each query of each sample, before others are merged with it."""
        rows = self._coverage[1]
        samples = batch if None in rows else sum(len(samples or ()) for samples in rows)
        return samples == batch and all(0 not in row for row in rows.values())

    @cached_property
    def _coverage(self) -> tuple[tuple[bool, ...], dict[tuple[int, ...] | None, bytearray]]:
        """Walk through the pieces, with one flag for each query of a group; no sample is in two groups.

        No rows are returned where a piece meets some queries first and others again: merging needs a start.
        """
        rows: dict[tuple[int, ...] | None, bytearray] = {}
        seen, in_part = [], False
        for piece in self.pieces:
            row = rows.setdefault(piece.samples, bytearray(self.q_len))
            again = untouched = False
            for start in (piece.q_start + n * piece.q_step for n in range(piece.count)):
                again = again or 1 in row[start : start + piece.q_len]
                untouched = untouched or 0 in row[start : start + piece.q_len]
                row[start : start + piece.q_len] = b"\1" * piece.q_len
            seen.append(again)
            in_part = in_part or (again and untouched)
        return tuple(seen), {} if in_part else rows

    def logits(self, batch: int) -> int:
        """Return how many scores of one head are computed for the whole batch."""
        return sum(piece.logits * len(piece.samples_of(batch)) for piece in self.pieces)


def cost_of(pieces: Iterable[Piece], batch: int, heads: int) -> float:
    """Return an estimate of the time, in logits: to compare cuts, not to promise anything."""
    return sum(_CALL_IN_LOGITS + piece.cost * heads * len(piece.samples_of(batch)) for piece in pieces)
