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

WORTH = re.compile(r"\.view\(")


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    for call in source.calls:
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "view":
            continue
        moved, sizes = _moved(source, call.func.value), view_sizes(call)
        if moved is None or sizes is None or not isinstance(moved.func, ast.Attribute):
            continue
        known = axes_of(source, moved.func.value)
        order = None if known is None else order_of(moved, len(known))
        if known is None or order is None or not _merges_moved(sizes, order):
            continue
        if "1" not in known and not any(number(it) == 1 for it in sizes):
            yield Hit(
                call,
                f"`{shown(moved)}` leaves strides that no view can merge",
                ".reshape(...), or .contiguous() before .view(...)",
            )


def _moved(source: Source, node: ast.expr) -> ast.Call | None:
    values = written(source, node)
    if values is None or len(values) != 1:
        return None
    value = values[0]
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in {"transpose", "permute"}
    ):
        return value
    return None


def _merges_moved(sizes: list[ast.expr], order: list[int]) -> bool:
    """Say whether the view merges axes that were no neighbours, where only one size can be the merged one."""
    fewer = len(order) - len(sizes)
    places = [n for n, it in enumerate(sizes) if isinstance(it, ast.BinOp) or number(it) == -1]
    if fewer < 1 or len(places) != 1:
        return False
    merged = order[places[0] : places[0] + fewer + 1]
    return merged != list(range(merged[0], merged[0] + len(merged)))
