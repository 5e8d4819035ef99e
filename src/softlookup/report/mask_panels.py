"""A mask as a drawing takes it: panels of cells, and the numbers that stand at their edges.

A cell is ``1``, every query of it may look at every key of it, ``.``, no query at any key, or ``+``, between.
"""

from __future__ import annotations

from dataclasses import dataclass

FULL, PARTLY, EMPTY = "1", "+", "."


@dataclass(frozen=True)
class MaskPanel:
    """One sample and head.

    title: which; "" where the mask is the same for all
    rows: the cells, a row for one query or for a block of queries
    blind: the rows in which some query sees no key
    """

    title: str
    rows: tuple[str, ...]
    blind: frozenset[int]


@dataclass(frozen=True)
class MaskPicture:
    """All panels of one mask.

    heading: the mask in words
    q_len, k_len: T_q and T_k
    block: how many queries and how many keys one cell is
    left_out: how many samples and heads have no panel
    """

    heading: str
    panels: tuple[MaskPanel, ...]
    q_len: int
    k_len: int
    block: tuple[int, int] = (1, 1)
    left_out: int = 0

    @property
    def in_blocks(self) -> bool:
        """Say whether a cell is more than one query and one key."""
        return self.block != (1, 1)

    @property
    def some_blind(self) -> bool:
        """Say whether a query that is drawn sees no key."""
        return any(panel.blind for panel in self.panels)

    def notes(self) -> list[str]:
        """Return the sentences that a drawing needs: what a cell is, and what is not drawn."""
        queries, keys = self.block
        cell = f"a cell is {_counted(queries, 'query', 'queries')} x {_counted(keys, 'key', 'keys')}"
        drawn = len(self.panels)
        return [cell] * self.in_blocks + [
            f"{drawn} of {drawn + self.left_out} samples and heads are drawn"
        ] * bool(self.left_out)


def ticks(cells: int, block: int, apart: float) -> list[tuple[int, str]]:
    """Return (cell, its first position) for the labels of an axis: at most ten, evenly spaced.

    apart: how many cells one label needs

    >>> ticks(12, 1, apart=1.5)
    [(0, '0'), (2, '2'), (4, '4'), (6, '6'), (8, '8'), (10, '10')]
    """
    steps = (step for step in (1, 2, 5, 10, 20, 50) if step >= apart and cells <= 10 * step)
    return [(cell, str(cell * block)) for cell in range(0, cells, next(steps, cells))]


def longest_label(cells: int, block: int) -> int:
    """Return how many characters the last label of an axis has."""
    return len(str((cells - 1) * block))


def _counted(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"
