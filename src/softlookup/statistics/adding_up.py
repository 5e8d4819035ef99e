"""Sums over tiles, in cells of some columns: what a pass has added up for a block of queries."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

_CELL = 64  # columns at most, whose positions are counted from one middle


@dataclass(frozen=True)
class Cells:
    """How columns are added up: a cell is a part of a bucket of the pooled map, or holds several of them.

    Short sequences have narrow buckets. Then few, wide cells are cheaper, with a sum for each bucket in them.

    width: columns of a cell; buckets: how many a cell holds; of_bucket: cells in one bucket; one of both is 1
    """

    width: int
    buckets: int
    of_bucket: int
    all_buckets: int

    @staticmethod
    def of(width: int, of_bucket: int, all_buckets: int) -> Cells:
        """Return cells at least so wide, of which so many make one of all buckets: see ``Grid``."""
        buckets = 1 if of_bucket > 1 else max(1, min(_CELL // width, all_buckets))
        return Cells(width * buckets, buckets, of_bucket, all_buckets)

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


class Added:
    """What the tiles of a block have added up so far.

    Tiles of the same columns, of one group of heads after the other, make a step: their sums lie beside each
    other, and get to their place by one copy.
    """

    def __init__(self, room: Tensor, grid: Cells, heads_at_once: int) -> None:
        """Take room for n sums over cells, as much for a step, and one: [2 n + 1, heads, rows, cells]."""
        number = len(room) // 2
        self.cells, self._memory, self._apart = room[:number], room[number:-1].flatten(), room[-1]
        self._grid, self._at_once = grid, heads_at_once
        self.w_log_w = room.new_zeros(room.shape[1:3])
        self._w_log_w_of_step = torch.empty_like(self.w_log_w)
        self._w_log_w_parts = torch.split(self._w_log_w_of_step, heads_at_once)
        self._parts: tuple[Tensor, ...] = ()
        self._reached = 0

    def begin_step(self, cells: int) -> None:
        """Make room for the sums over so many cells."""
        number, heads, rows = self.cells.shape[:3]
        columns = heads * rows * cells
        self._step = self._memory[: number * columns].view(number, columns)
        self._parts = torch.split(self._step, self._at_once * rows * cells, dim=1)

    def add(self, group: int, over_cell: Tensor, weights: Tensor, w_log_w: Tensor) -> None:
        """Add up a tile: weights [columns of a cell, heads * rows * cells], w log w as they lie."""
        torch.mm(over_cell, weights, out=self._parts[group])
        torch.sum(w_log_w, dim=-1, out=self._w_log_w_parts[group])

    def end_step(self, first: int) -> None:
        """Put the sums over the cells from the first on in their place."""
        self.reach(first)
        self.w_log_w += self._w_log_w_of_step
        sums = self._step.view(*self.cells.shape[:3], -1)
        self._reached = first + sums.shape[-1]
        self.cells[..., first : self._reached] = sums

    def reach(self, cell: int) -> None:
        """Fill in zeros for the cells that no query sees, up to this one."""
        if cell > self._reached:
            self.cells[..., self._reached : cell] = 0
            self._reached = cell

    @property
    def masses(self) -> Tensor:
        """Sums of w: [buckets of a cell, heads, rows, cells]."""
        return self.cells[3:] if self._grid.buckets > 1 else self.cells[:1]

    def position(self, share: Tensor) -> tuple[Tensor, Tensor]:
        """[heads, rows] -> mean and variance of the key, counted from the first column of the block.

        The variance is the sum of w (m + x - mean)^2, for the middle m of a cell. Sums of w x and w x^2 are
        used up.
        """
        mass, first, second = self.cells[:3]
        middles = torch.arange(mass.shape[-1], device=mass.device, dtype=mass.dtype) * self._grid.width
        middles += (self._grid.width - 1) / 2
        mean = ((mass @ middles) + first.sum(dim=-1)).mul_(share)
        apart = torch.sub(middles, mean[..., None], out=self._apart)
        second.addcmul_(apart, first.mul_(2).addcmul_(apart, mass))
        return mean, second.sum(dim=-1).mul_(share).clamp_(min=0)
