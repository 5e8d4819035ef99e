"""Numbers that masks put into scores, by masked_fill, where or an assignment; and the softmax after them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from softlookup.lint.products import softmaxes
from softlookup.lint.source import Source, argument, number
from softlookup.lint.values import everything_before


@dataclass(frozen=True)
class Fill:
    """One fill: the number, where it is written, and the tensor that it goes into."""

    node: ast.expr
    value: float
    statement: ast.AST
    tensor: ast.expr


def written_fills(source: Source) -> Iterator[Fill]:
    """Yield every fill of a masked tensor with a written number."""
    for call in source.calls:
        name = source.called(call)
        if name in {"masked_fill", "masked_fill_"} and call.args:
            method = isinstance(call.func, ast.Attribute) and source.dotted(call.func.value) != "torch"
            given = argument(call, "value", 1 if method else 2)
            tensor = call.func.value if method and isinstance(call.func, ast.Attribute) else call.args[0]
            yield from _fill(source, given, tensor)
        elif name == "where" and len(call.args) == 3:
            yield from _fill(source, call.args[2], call.args[1])
            yield from _fill(source, call.args[1], call.args[2])
    for statement in source.of_kind(ast.Assign):
        target = statement.targets[0]
        if not isinstance(target, ast.Subscript) or isinstance(target.slice, (ast.Slice, ast.Tuple)):
            continue
        if "mask" in ast.unparse(target.slice).lower():
            yield from _fill(source, statement.value, target.value)


def _fill(source: Source, given: ast.expr | None, tensor: ast.expr) -> Iterator[Fill]:
    value = number(given)
    if given is not None and value is not None:
        yield Fill(given, value, source.statement(given), tensor)


def reaches_softmax(source: Source, fill: Fill) -> bool:
    """Say whether a softmax in the same function normalises what was filled."""
    function = source.function(fill.node)
    for call, scores, _ in softmaxes(source):
        if scores is None or source.function(call) is not function or call.lineno < fill.node.lineno:
            continue
        made_of = everything_before(source, scores)
        if any(fill.node in set(ast.walk(it)) for it in made_of):
            return True
        if ast.unparse(fill.tensor) in {ast.unparse(it) for it in made_of} and isinstance(
            fill.statement, (ast.Expr, ast.Assign)
        ):
            in_place = isinstance(fill.statement, ast.Expr) or isinstance(
                fill.statement.targets[0], ast.Subscript
            )
            if in_place:
                return True
    return False
