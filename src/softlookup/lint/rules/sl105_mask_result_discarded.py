"""`masked_fill`, or another call that returns a new tensor, stands alone: its result is thrown away.

Missed because: the twin with the underscore works in place, and nothing warns.

Fix: assign the result, or use the in-place twin: `scores = scores.masked_fill(...)`.

Seen in: https://github.com/espnet/espnet/pull/1273, https://github.com/opendilab/DI-engine/issues/333,
https://github.com/lucidrains/flamingo-pytorch/issues/10
"""

import ast
import re
from collections.abc import Iterator

from softlookup.lint.hit import Hit, shown
from softlookup.lint.products import is_scores_name, label
from softlookup.lint.source import Source, argument, is_self_attribute

_FILLS = "masked_fill|masked_scatter|masked_select|index_fill|softmax|log_softmax|logical_not"
_RESHAPES = "unsqueeze|squeeze|transpose|permute|expand|repeat|tril|triu|bool|view|reshape"
WORTH = re.compile(rf"^[ \t]*[\w.\[\]]*\b({_FILLS}|{_RESHAPES})\(", re.M)


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    if "torch" not in source.text:
        return
    for statement in source.of_kind(ast.Expr):
        call = statement.value
        if not isinstance(call, ast.Call) or argument(call, "out") is not None or _tested(source, statement):
            continue
        on = _subject(source, call)
        name = source.called(call)
        fills = re.fullmatch(_FILLS, name) and not _is_a_module(source, on)
        if fills or (re.fullmatch(_RESHAPES, name) and _mask_or_scores(on)):
            yield Hit(
                statement,
                f"nothing keeps what `{shown(call)}` returns: `{shown(on)}` stays as it was",
                f"{shown(on)} = {shown(call)}",
            )


def _subject(source: Source, call: ast.Call) -> ast.expr:
    """Return x of ``x.masked_fill(...)`` and of ``torch.masked_fill(x, ...)``."""
    of_torch = source.dotted(call.func).startswith(("torch.", "F."))
    if isinstance(call.func, ast.Attribute) and not of_torch:
        return call.func.value
    return call.args[0] if call.args else call


def _mask_or_scores(node: ast.expr) -> bool:
    name = label(node)
    return bool(re.search(r"mask", name)) or is_scores_name(name)


def _is_a_module(source: Source, node: ast.expr) -> bool:
    """Say whether a method of this may keep its result: of self, of a layer, of an imported module."""
    if isinstance(node, ast.Name):
        return node.id in {"self", "cls", "super"} or node.id in source.imported
    return is_self_attribute(node) or (isinstance(node, ast.Call) and source.called(node) == "super")


def _tested(source: Source, statement: ast.AST) -> bool:
    """Say whether the call stands in ``with raises(...)`` or ``try``: it is run to see it fail."""
    above = source.parent[statement]
    return isinstance(above, (ast.With, ast.Try))
