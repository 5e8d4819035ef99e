"""Statistics in one pass over the scores: they are computed once more, in tiles, and never kept.

Once the log-sum-exp is known, a weight is exp(score - lse), and no tile has to know of another: see
``measuring``. This is the way on a CPU, where lookups of as many more values would cost more.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softlookup.statistics.adding_up import Cells
from softlookup.statistics.measuring import Measure
from softlookup.statistics.reading import Scores
from softlookup.statistics.rows import Rows
from softlookup.statistics.tiling import Block, Tile, Tiling
from softlookup.statistics.wanted import Grid, Wanted


@torch.no_grad()
def statistics_of_scores(scores: Scores, wanted: Wanted, lse: Tensor | None = None) -> tuple[Rows, Tensor]:
    """Return what every query does with its weights, and the weights summed over buckets of queries and keys.

    lse: [B, H, T_q] log-sum-exp of the scaled visible scores; None: one more pass finds it
    Returns: rows, and the sums [B, H, query buckets, key buckets]
    """
    grid = Grid.of(scores.seen.shard.k_total, wanted.key_buckets)
    cells = Cells.of(grid.cell, grid.cells, grid.buckets)
    with torch.autocast(scores.q.device.type, enabled=False):
        tiling = Tiling(scores, step=cells.width)
        if lse is None:
            normalizer = _LogSumExp(tiling)
            tiling.run(normalizer)
            lse = normalizer.lse
        measure = Measure(tiling, wanted, cells, lse.detach().to(scores.dtype).reshape(scores.q.shape[:-1]))
        tiling.run(measure, measure.lse)
    return measure.rows(), measure.pooled


class _LogSumExp:
    """log sum exp of every row."""

    hidden = -math.inf

    def __init__(self, tiling: Tiling) -> None:
        q = tiling.q  # [B * H_kv, group, T_q, d]
        self.lse = torch.full(q.shape[:-1], -math.inf, dtype=tiling.scores.dtype, device=q.device)

    def begin(self, block: Block) -> None:
        """See ``Visitor``."""

    def see(self, tile: Tile) -> None:
        """See ``Visitor``."""
        block = tile.block
        found = self.lse[block.heads, :, block.q_start : block.q_stop][block.groups[tile.group]]
        torch.logaddexp(found, tile.by_query(tile.sheet.scores).logsumexp(dim=-1), out=found)

    def end(self, block: Block) -> None:
        """See ``Visitor``."""
