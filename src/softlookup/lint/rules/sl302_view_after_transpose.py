"""`.view` right after `.transpose` or `.permute` that moved the axes it merges: torch refuses at run time.

Missed because: the branch is never run, or only with an axis of size one.

Fix: `.reshape(...)`, or `.contiguous().view(...)`, once the order of axes is the one that is meant.

Seen in: https://github.com/ajhalthor/Transformer-Neural-Network/pull/4 (the order of axes around such a view)
"""

import ast
import re
from collections.abc import Iterator

from softlookup.lint.axes import axes_of, order_of, view_sizes
from softlookup.lint.hit import Hit, shown
from softlookup.lint.source import Source, number
from softlookup.lint.values import written

_FAR = 4  # moves followed one after the other
WORTH = re.compile(r"\.view\(")


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    for call in source.calls:
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "view":
            continue
        sizes, moved = view_sizes(call), _order_in_memory(source, call.func.value, _FAR)
        if sizes is None or moved is None or not _merges_moved(sizes, moved):
            continue
        known = axes_of(source, call.func.value) or ()
        if "1" not in known and not any(number(it) == 1 for it in sizes):
            yield Hit(
                call,
                f"the axes of `{shown(call.func.value)}` were moved, and no view can merge these",
                ".reshape(...), or .contiguous() before .view(...)",
            )


def _order_in_memory(source: Source, node: ast.expr, left: int) -> list[int] | None:
    """Return where each axis lies in memory after ``transpose`` and ``permute``, one after the other.

    None where nothing was moved, or the text does not say how.
    """
    values = written(source, node) if left else None
    if values is None or len(values) != 1 or not isinstance(values[0], ast.Call):
        return None
    call = values[0]
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in {"transpose", "permute"}:
        return None
    known = axes_of(source, call.func.value)
    order = None if known is None else order_of(call, len(known))
    if order is None:
        return None
    before = _order_in_memory(source, call.func.value, left - 1) or range(len(order))
    return [before[it] for it in order]


def _merges_moved(sizes: list[ast.expr], order: list[int]) -> bool:
    """Say whether the view merges axes that were no neighbours, where only one size can be the merged one."""
    fewer = len(order) - len(sizes)
    places = [n for n, it in enumerate(sizes) if isinstance(it, ast.BinOp) or number(it) == -1]
    if fewer < 1 or len(places) != 1:
        return False
    merged = order[places[0] : places[0] + fewer + 1]
    return merged != list(range(merged[0], merged[0] + len(merged)))
