"""Sums over tiles: what a pass has added up so far for the same heads and queries."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Group:
    """What tiles of the same heads and queries have added up so far.

    sums: by name, [heads, rows, ...]; room: where the sums over cells go, [3, heads, rows, cells]
    reached: the column behind the last tile
    """

    sums: dict[str, Tensor]
    room: Tensor
    reached: int
    cells: list[Tensor] = field(default_factory=list)
    w_log_w: list[Tensor] = field(default_factory=list)

    def reach(self, column: int, cell: int) -> None:
        """Add zeros for the columns that no query sees, up to this one."""
        if column > self.reached:
            heads, rows = self.room.shape[1:3]
            self.cells.append(self.room.new_zeros(3, heads * rows * (column - self.reached) // cell))

    def finish(self, stop: int, cell: int) -> None:
        """Put the sums of all cells side by side."""
        self.reach(stop, cell)
        if self.cells:
            sides = [cells.view(*self.room.shape[:3], -1) for cells in self.cells]
            self.room.copy_(torch.cat(sides, dim=-1))

    @property
    def sum_of_w_log_w(self) -> Tensor:
        """[heads, rows]."""
        if not self.w_log_w:
            return self.room.new_zeros(self.room.shape[1:3])
        return torch.stack(self.w_log_w).sum(dim=0)
