"""Small matrices as text, one beside the other: how a wrong lookup is shown next to the right one.

A cell that is exactly 0 is drawn as ``.`` (a hidden key gets exactly 0). A cell that is ``.`` on one
side only carries a ``*`` on the other, so that the pattern is visible without colour.
"""

from __future__ import annotations

import math
from typing import Any

Matrix = list[list[float]]

_MOST_ROWS, _MOST_COLUMNS = 8, 8  # a terminal of 80 columns holds two of these side by side
_GAP = "     "


def as_matrix(value: Any) -> Matrix | None:
    """Return lists of numbers of equal length as floats, or None for anything else; "nan" is a number.

    >>> as_matrix([[1, "nan"]]), as_matrix([1, 2])
    ([[1.0, nan]], None)
    """
    if not isinstance(value, list) or not value or not all(isinstance(row, list) and row for row in value):
        return None
    try:
        rows = [[math.nan if cell is None else float(cell) for cell in row] for row in value]
    except (TypeError, ValueError):
        return None
    return rows if len({len(row) for row in rows}) == 1 else None


def beside(titles: tuple[str, str], left: Matrix, right: Matrix, *, sums: bool, width: int = 80) -> list[str]:
    """Return the lines of two titled matrices side by side, or stacked where ``width`` is too small.

    With ``sums``, the sums of the rows stand beside both as soon as one row of either does not sum to 1.

    >>> print("\\n".join(beside(("yours", "right"), [[0.5, 0.25]], [[1.0, 0.0]], sums=True)))
    yours                    right
    0.50  0.25* sum 0.75     1.00  .  sum 1.00
    """
    digits = decimals(left, right)
    sums = sums and off_one(left, right)
    marked = one_sided(left, right)
    first, second = (
        [title, *_lines(matrix, marked, digits=digits, sums=sums)]
        for title, matrix in zip(titles, (left, right), strict=True)
    )
    together = _side_by_side(first, second)
    return together if max(map(len, together)) <= width else [*first, *second]


def decimals(left: Matrix, right: Matrix) -> int:
    """Return how many decimals show the largest difference: 2 unless it is smaller than that."""
    pairs = zip([cell for row in left for cell in row], [cell for row in right for cell in row], strict=False)
    gaps = [abs(a - b) for a, b in pairs if math.isfinite(a) and math.isfinite(b)]
    largest = max(gaps, default=0.0)
    return 2 if largest == 0 or largest >= 0.02 else min(6, 1 + math.ceil(-math.log10(largest)))


def off_one(left: Matrix, right: Matrix) -> bool:
    """Say whether a row of either does not sum to 1, to the decimals that are shown."""
    return any(abs(sum(row) - 1) > 10 ** -decimals(left, right) for row in left + right)


def one_sided(left: Matrix, right: Matrix) -> set[tuple[int, int]]:
    """Return the places where exactly one of two matrices of one size is 0."""
    return {
        (i, j)
        for i, (mine, theirs) in enumerate(zip(left, right, strict=False))
        for j, (a, b) in enumerate(zip(mine, theirs, strict=False))
        if (a == 0) != (b == 0)
    }


def _lines(matrix: Matrix, marked: set[tuple[int, int]], *, digits: int, sums: bool) -> list[str]:
    """Return one line for each row, cells aligned at their right."""
    shown = [
        [
            cell_words(cell, digits) + ("*" if (i, j) in marked and cell != 0 else " ")
            for j, cell in enumerate(row[:_MOST_COLUMNS])
        ]
        + (["..."] if len(row) > _MOST_COLUMNS else [])
        for i, row in enumerate(matrix[:_MOST_ROWS])
    ]
    widths = [max(len(row[j]) for row in shown) for j in range(len(shown[0]))]
    lines = [" ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in shown]
    if sums:
        lines = [
            f"{line} sum {cell_words(sum(row), digits)}" for line, row in zip(lines, matrix, strict=False)
        ]
    return lines + (["..."] if len(matrix) > _MOST_ROWS else [])


def cell_words(value: float, digits: int) -> str:
    """Return one cell as text; exactly 0 is a dot.

    >>> cell_words(0.125, 2), cell_words(0.0, 2)
    ('0.12', '.')
    """
    if value == 0:
        return "."
    if not math.isfinite(value):
        return str(value)
    return f"{value:.{digits}f}" if abs(value) < 1000 else f"{value:.3g}"


def _side_by_side(left: list[str], right: list[str]) -> list[str]:
    height, width = max(len(left), len(right)), max(map(len, left))
    left = left + [""] * (height - len(left))
    right = right + [""] * (height - len(right))
    return [f"{a.ljust(width)}{_GAP}{b}".rstrip() for a, b in zip(left, right, strict=True)]
