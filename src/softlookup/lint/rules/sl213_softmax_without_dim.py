"""softmax over attention scores without `dim`: it guesses axis 0 for three axes, axis 1 for four.

Missed because: for two axes the guess is right, and the warning is printed once.

Fix: `dim=-1`.

Seen in: https://github.com/gjylt/DoubleAttentionNet/issues/3,
https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146
"""

import ast
import re
from collections.abc import Iterator

from softlookup.lint.axes import axes_of
from softlookup.lint.hit import Hit, shown
from softlookup.lint.products import products_behind, softmaxes
from softlookup.lint.source import Source

WORTH = re.compile(r"[sS]oftmax\(")


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    for call, scores, dim in softmaxes(source):
        if dim is not None or scores is None or call.keywords:
            continue
        rank = _rank(source, call, scores)
        if not _of_torch(source, call) or (rank is not None and rank < 3):
            continue
        if rank is None and not any(products_behind(source, scores)):
            continue
        guess = (
            "an axis that depends on their number"
            if rank is None
            else f"axis {0 if rank == 3 else 1} of {rank}"
        )
        yield Hit(call, f"`{shown(call)}` names no axis: torch takes {guess}", "dim=-1")


def _of_torch(source: Source, call: ast.Call) -> bool:
    """Say whether this is torch's softmax: others take the last axis, or flatten."""
    full = source.dotted(call.func)
    return full.startswith(("torch.", "F.", "nn.")) or not isinstance(call.func, ast.Name)


def _rank(source: Source, call: ast.Call, scores: ast.expr) -> int | None:
    """Return the number of axes, from how the scores are made or from the index right behind the softmax."""
    known = axes_of(source, scores)
    if known is not None:
        return len(known)
    behind = source.parent[call]
    if isinstance(behind, ast.Subscript) and behind.value is call and isinstance(behind.slice, ast.Tuple):
        parts = behind.slice.elts
        if not any(isinstance(it, ast.Constant) for it in parts):
            return len(parts)
    return None
