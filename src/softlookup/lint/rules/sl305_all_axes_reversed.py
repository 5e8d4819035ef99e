"""`.T` or `.t()` in an attention product of more than two axes: `.T` reverses all of them, `.t()` refuses.

Missed because: it is right for one sequence without heads, where everything starts.

Fix: `.transpose(-2, -1)` or `.mT`.

Seen in: https://github.com/gazelle93/Transformer-Various-Positional-Encoding/issues/1 (the batch moved along)
"""

import ast
import re
from collections.abc import Iterator

from softlookup.lint.axes import axes_of
from softlookup.lint.hit import Hit, shown
from softlookup.lint.products import as_product, is_key, is_query, is_scores_name, label
from softlookup.lint.source import Source

WORTH = re.compile(r"\.T\b|\.t\(\)")


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    for node in [*source.of_kind(ast.BinOp), *source.calls]:
        found = as_product(source, node)
        if found is None:
            continue
        for operand in (found.first, found.second):
            inner = _reversed(operand)
            if inner is None or not (is_key(inner) or is_query(inner) or is_scores_name(label(inner))):
                continue
            known = axes_of(source, inner)
            if known is not None and len(known) > 2:
                yield Hit(
                    operand,
                    f"`{shown(operand)}` reverses all {len(known)} axes of `{shown(inner)}`, the batch too",
                    f"{shown(inner)}.transpose(-2, -1)",
                )


def _reversed(node: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return node.value
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "t"
        and not node.args
    ):
        return node.func.value
    return None
