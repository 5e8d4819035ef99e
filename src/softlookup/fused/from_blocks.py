"""A plan from blocks: where a mask has no known structure, hidden blocks of it are left out.

Each block of queries is one call, beside all the keys that any of its queries sees, gathered from as many
ranges as there are.
"""

from __future__ import annotations

from dataclasses import replace

from softlookup.fused.occupancy import Occupancy, runs_of_blocks
from softlookup.fused.pieces import Piece, Plan, Tiles

_MOST_ROWS = 512  # neighbouring blocks of queries with the same keys are one call, up to so many


def plan_of_blocks(occupancy: Occupancy, tiles: Tiles, q_len: int, *, maskless: bool) -> Plan:
    """Return a plan that computes the blocks in which a mask shows anything.

    maskless: a block that is visible as a whole needs no mask (False where a bias is added everywhere)
    """
    samples = occupancy.some.shape[0]
    heads = occupancy.some.shape[1]
    together = Occupancy(
        occupancy.some.any(dim=1, keepdim=True) if heads > 1 else occupancy.some,
        occupancy.all.all(dim=1, keepdim=True) if heads > 1 else occupancy.all,
        occupancy.block,
        occupancy.k_len,
    )
    pieces: list[Piece] = []
    for sample in range(samples):
        mine = (sample,) if samples > 1 else None
        pieces += _joined(_blocks_of(together, sample, q_len, maskless), mine)
    reason = f"{together.share:.0%} of its blocks of {occupancy.block} show anything"
    return Plan(tuple(pieces), tiles, q_len, occupancy.k_len, reason)


def _blocks_of(occupancy: Occupancy, sample: int, q_len: int, maskless: bool) -> list[Piece]:
    pieces = []
    for n in range(occupancy.some.shape[2]):
        runs = runs_of_blocks(occupancy, sample, 0, n)
        if runs:
            start = n * occupancy.block
            full = maskless and all(run.full for run in runs)
            keys = tuple((run.start, run.stop) for run in runs)
            rows = min(occupancy.block, q_len - start)
            pieces.append(Piece(start, rows, keys, "full" if full else "tile"))
    return pieces


def _joined(pieces: list[Piece], samples: tuple[int, ...] | None) -> list[Piece]:
    """Join neighbouring blocks of queries that look at the same keys."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if (
            last is not None
            and (last.runs, last.shape) == (piece.runs, piece.shape)
            and last.q_start + last.q_len == piece.q_start
            and (piece.shape == "full" or last.q_len + piece.q_len <= _MOST_ROWS)
        ):
            joined[-1] = replace(last, q_len=last.q_len + piece.q_len)
        else:
            joined.append(replace(piece, samples=samples))
    return joined
