"""Heads are split by a view of (B, T, d_model) straight to (B, H, T, d): a head gets a block of tokens.

Missed because: the number of elements is the same, and every token still reaches some head.

Fix: `.view(B, T, H, d).transpose(1, 2)`.

Seen in: https://github.com/reczoo/FuxiCTR/issues/30,
https://github.com/649453932/Chinese-Text-Classification-Pytorch/issues/10
"""

import ast
import re
from collections.abc import Iterator

from softlookup.lint.axes import axes_of, view_sizes
from softlookup.lint.hit import Hit, shown
from softlookup.lint.source import Source, number
from softlookup.lint.values import written
from softlookup.lint.views import contradiction, mentions_heads

WORTH = re.compile(r"\.(view|reshape)\(")


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    for call in source.calls:
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in {"view", "reshape"}:
            continue
        sizes = view_sizes(call)
        if sizes is None or not mentions_heads(*map(ast.unparse, sizes)):
            continue
        if words := _of_axes(source, call.func.value, sizes) or _of_features(source, call.func.value, sizes):
            yield Hit(
                call,
                f"`{shown(call)}`: {words}",
                "split the last axis, then move the heads: .view(B, T, H, d).transpose(1, 2)",
            )


def _of_axes(source: Source, tensor: ast.expr, sizes: list[ast.expr]) -> str | None:
    known = axes_of(source, tensor)
    if known is None or len(known) > len(sizes) or mentions_heads(*known):
        return None
    return contradiction(source, known, sizes)


def _of_features(source: Source, tensor: ast.expr, sizes: list[ast.expr]) -> str | None:
    """Say what is wrong with ``linear(x).view(B * H, -1, d)``: heads are cut out of its first axes."""
    first = sizes[0]
    if (
        len(sizes) != 3
        or not isinstance(first, ast.BinOp)
        or not isinstance(first.op, ast.Mult)
        or number(sizes[1]) != -1
    ):
        return None
    made = written(source, tensor)
    if not made or not all(_is_linear(source, it) for it in made) or not mentions_heads(ast.unparse(first)):
        return None
    return f"the heads lie in the last axis, and `{ast.unparse(first)}` takes them from the first ones"


def _is_linear(source: Source, node: ast.expr) -> bool:
    kinds = source.submodule_kinds(node) if isinstance(node, ast.Call) else []
    return bool(kinds) and all(kind.endswith("Linear") for kind in kinds)
