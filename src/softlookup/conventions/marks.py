"""A mask as it came: which entries are marked, and whether a mark shows or hides. No copy of it is made.

Of a large mask most questions are answered from eight entries at a time, or from some rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from softlookup.conventions.tensors import as_words

_ALL_ONES = 0x0101010101010101


@dataclass(frozen=True, eq=False)
class Marks:
    """Marks [B or 1, H or 1, T_q or 1, T_k or 1], bool, and whether a mark hides."""

    marked: Tensor
    hides: bool

    def turned(self, part: Tensor) -> Tensor:
        """Return what marks show: a copy where they hide."""
        return ~part if self.hides else part

    def visible(self, *place: slice | Tensor | int) -> Tensor:
        """Return what a part of the mask shows."""
        return self.turned(self.marked[place])

    def beside(self, steps: int) -> Tensor:
        """Bool [B, H, pairs]: which queries see the key that lies so many keys behind their own."""
        return self.turned(self.marked.diagonal(steps, dim1=-2, dim2=-1))

    def opposite(self) -> Marks:
        """Return the same marks in their other meaning."""
        return Marks(self.marked, not self.hides)

    @cached_property
    def seeing(self) -> Tensor:
        """Bool [B, H, T_q]: which queries see some key."""
        words = as_words(self.marked)
        if words is None:
            return ~self.marked.all(dim=-1) if self.hides else self.marked.any(dim=-1)
        return words.amin(dim=-1) != _ALL_ONES if self.hides else words.amax(dim=-1) != 0

    @cached_property
    def seen(self) -> Tensor:
        """Bool [B, H, T_k]: which keys some query sees."""
        numbers = self.marked.view(torch.uint8)
        return numbers.amin(dim=-2) == 0 if self.hides else numbers.amax(dim=-2) != 0

    @property
    def by_query(self) -> bool:
        """Say whether there is an axis of queries."""
        return self.marked.shape[-2] > 1

    @property
    def square(self) -> bool:
        """Say whether there are as many queries as keys, and more than one."""
        return self.marked.shape[-2] == self.marked.shape[-1] > 1


def first_and_last(visible: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first and the last visible key of each row of bool [..., T_k]; the ends for an empty one."""
    flags = visible.to(torch.uint8)
    return flags.argmax(dim=-1), visible.shape[-1] - 1 - flags.flip(-1).argmax(dim=-1)
