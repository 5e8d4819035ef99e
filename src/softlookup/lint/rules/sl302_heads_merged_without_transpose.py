"""Heads are merged by a view of (B, H, T, d) without moving the head axis back: tokens and heads are mixed.

Missed because: the number of elements is the same and the shape afterwards is right.

Fix: `.transpose(1, 2).reshape(B, T, H * d)`.

Seen in: https://github.com/jsbaan/transformer-from-scratch/pull/6,
https://github.com/ajhalthor/Transformer-Neural-Network/pull/4, https://github.com/hackiey/QAnet-pytorch/issues/2,
https://github.com/meta-pytorch/opacus/pull/825
"""

import ast
import re
from collections.abc import Iterator

from softlookup.lint.axes import axes_of, view_sizes
from softlookup.lint.hit import Hit, shown
from softlookup.lint.source import Source
from softlookup.lint.views import contradiction, mentions_heads

WORTH = re.compile(r"\.(view|reshape)\(")


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    for call in source.calls:
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in {"view", "reshape"}:
            continue
        sizes = view_sizes(call)
        known = axes_of(source, call.func.value) if sizes is not None else None
        if sizes is None or known is None or len(known) <= len(sizes) or not mentions_heads(*known):
            continue
        if words := contradiction(source, known, sizes):
            yield Hit(
                call,
                f"`{shown(call)}`: {words}",
                "move the head axis beside its width first: .transpose(1, 2)",
            )
