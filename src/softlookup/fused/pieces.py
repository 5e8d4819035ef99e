"""What a plan is made of: pieces, each one call of a fused kernel.

A piece is a block of queries beside the keys that some of them may look at:

    full       every query of the block sees every key of the piece              no mask
    triangle   query r of the block sees keys 0 to r of the piece                the causal flag
    tile       anything else: a mask of the size of the block comes with the call

``count`` equal pieces, each moved on by as many queries and keys as the one before, are one call: they are
folded into the batch. Queries that stand in several pieces are merged by their log-sum-exp: see ``running``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

from torch import Tensor

Shape = Literal["full", "triangle", "tile"]

#: Measured on two CPU cores: what one more call costs, in logits that are computed in the same time.
_CALL_IN_LOGITS = 60_000
_TILE_SURCHARGE = 1.15  # a mask is made, turned into numbers and added to every logit


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

    @property
    def k_len(self) -> int:
        """Keys beside each query."""
        return sum(stop - start for start, stop in self.runs)

    @property
    def logits(self) -> int:
        """Scores that the kernel computes for one head and one sample; it skips half of a triangle."""
        square = self.q_len * self.k_len
        return self.count * (self.q_len * (self.q_len + 1) // 2 if self.shape == "triangle" else square)


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

    @cached_property
    def seen_before(self) -> tuple[bool, ...]:
        """Say of each piece whether an earlier one has some of its queries; no sample is in two groups."""
        covered: dict[tuple[int, ...] | None, bytearray] = {}
        answers = []
        for piece in self.pieces:
            rows = covered.setdefault(piece.samples, bytearray(self.q_len))
            here = slice(piece.q_start, piece.q_start + (piece.count - 1) * piece.q_step + piece.q_len)
            answers.append(1 in rows[here])
            rows[here] = b"\1" * (here.stop - here.start)
        return tuple(answers)

    def logits(self, batch: int) -> int:
        """Return how many scores of one head are computed for the whole batch."""
        return sum(
            piece.logits * (batch if piece.samples is None else len(piece.samples)) for piece in self.pieces
        )

    def cost(self, batch: int, heads: int) -> float:
        """Return an estimate of the time, in logits: to compare plans, not to promise anything."""
        return sum(
            _CALL_IN_LOGITS
            + piece.logits
            * heads
            * (batch if piece.samples is None else len(piece.samples))
            * (_TILE_SURCHARGE if piece.shape == "tile" else 1.0)
            for piece in self.pieces
        )
