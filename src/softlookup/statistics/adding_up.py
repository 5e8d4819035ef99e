"""Sums over tiles: what a pass has added up so far for the same heads and queries, in cells of some columns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from softlookup.statistics.wanted import Grid

_CELL = 64  # columns at most, whose positions are counted from one middle


@dataclass(frozen=True)
class Cells:
    """How columns are added up: a cell is a part of a bucket of the pooled map, or holds several of them.

    Short sequences have narrow buckets. Then few and wide cells are cheaper, with a sum for each bucket inside.

    width: columns of a cell; buckets: how many a cell holds; of_bucket: cells in one bucket; one of both is 1
    """

    width: int
    buckets: int
    of_bucket: int
    all_buckets: int

    @staticmethod
    def of(grid: Grid) -> Cells:
        """Return the cells for the grid of all keys."""
        buckets = 1 if grid.cells > 1 else max(1, min(_CELL // grid.cell, grid.buckets))
        return Cells(grid.cell * buckets, buckets, grid.cells, grid.buckets)

    def sums(self, like: Tensor) -> Tensor:
        """[3, or 3 + buckets, width]: ones, x and x^2, and where each bucket lies, if a cell holds several.

        x counts from the middle of the cell
        """
        columns = torch.arange(self.width, dtype=like.dtype, device=like.device)
        x = columns - (self.width - 1) / 2
        rows = torch.stack([torch.ones_like(x), x, x * x])
        if self.buckets == 1:
            return rows
        each = torch.arange(self.buckets, device=like.device)[:, None]
        lies_in = columns.long() // (self.width // self.buckets) == each
        return torch.cat([rows, lies_in.to(like.dtype)])

    def touched(self, start: int, stop: int) -> slice:
        """Return the buckets that the cells [start, stop) touch."""
        if self.buckets > 1:
            return slice(start * self.buckets, min(stop * self.buckets, self.all_buckets))
        return slice(start // self.of_bucket, -(-stop // self.of_bucket))

    def in_buckets(self, masses: Tensor, start: int) -> Tensor:
        """[buckets of a cell, ..., cells from start on] -> [..., buckets that they touch]."""
        stop = start + masses.shape[-1]
        touched = self.touched(start, stop)
        if self.buckets > 1:
            return masses.movedim(0, -1).flatten(-2)[..., : touched.stop - touched.start]
        if self.of_bucket == 1:
            return masses[0]
        beside = start - touched.start * self.of_bucket, touched.stop * self.of_bucket - stop
        return torch.unflatten(pad(masses[0], beside), -1, (-1, self.of_bucket)).sum(dim=-1)


@dataclass
class Group:
    """What tiles of the same heads and queries have added up so far.

    sums: by name, [heads, rows, ...]; room: where the sums over cells go, [n, heads, rows, cells]
    reached: up to where it is filled
    """

    sums: dict[str, Tensor]
    room: Tensor
    reached: int = 0

    def reach(self, cell: int) -> None:
        """Fill in zeros for the cells that no query sees, up to this one."""
        if cell > self.reached:
            self.room[..., self.reached : cell] = 0
            self.reached = cell

    def add(self, first: int, sums: Tensor) -> None:
        """Put the sums over the cells from the first on, [n, heads * rows * cells], in their place."""
        self.reach(first)
        sums = sums.view(*self.room.shape[:3], -1)
        self.reached = first + sums.shape[-1]
        self.room[..., first : self.reached] = sums
