"""What is asked of the pass over the scores, and the grid on which positions are summed up."""

from __future__ import annotations

import math
from dataclasses import dataclass

from softlookup.statistics.seen_keys import SeenKeys

_CELL = 64  # keys at most whose positions are counted from one middle


@dataclass(frozen=True)
class Grid:
    """How all keys are cut: into the buckets of the pooled map, and these into cells of equal width."""

    cell: int
    cells: int  # in one bucket
    buckets: int

    @staticmethod
    def of(k_len: int, buckets: int) -> Grid:
        """Return at most so many buckets, as equal as whole cells allow.

        >>> Grid.of(1000, 10)
        Grid(cell=50, cells=2, buckets=10)
        """
        width = max(1, math.ceil(k_len / buckets))
        cells = math.ceil(width / _CELL)
        cell = math.ceil(width / cells)
        return Grid(cell, cells, math.ceil(k_len / (cell * cells)))

    def key_widths(self, k_len: int) -> tuple[int, ...]:
        """Return how many keys each bucket holds."""
        width = self.cell * self.cells
        return tuple(min(width, k_len - start) for start in range(0, k_len, width))


@dataclass(frozen=True)
class Wanted:
    """What is measured, beyond the numbers that every row has."""

    query_bucket: int  # queries in one bucket of the pooled map
    key_buckets: int  # at most
    exact_max: bool = False
    top_k: int = 0
    rule: SeenKeys | None = None  # weight on keys that it hides is forbidden
    key_mass: bool = False  # keep the masses of the buckets for each query
