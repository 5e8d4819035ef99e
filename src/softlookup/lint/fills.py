"""Numbers that masks put into scores, by masked_fill, where or an assignment; and the softmax after them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from softlookup.lint.products import softmaxes
from softlookup.lint.source import Source, argument, number
from softlookup.lint.values import everything_before, reaching


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
    value = None if given is None else _value(source, given)
    if given is not None and value is not None:
        yield Fill(given, value, source.statement(given), tensor)


def _value(source: Source, node: ast.expr) -> float | None:
    """Return a number that is written here, under a name, as a parameter's default, or in a filled tensor."""
    if (value := number(node)) is not None:
        return value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _value(source, node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Name):
        values = [it.value for it in reaching(source, node) if it.position is None]
        return number(values[0]) if len(values) == 1 else None
    if isinstance(node, ast.Call) and source.called(node) in {"full_like", "full", "tensor"} and node.args:
        return number(argument(node, "fill_value", 0 if source.called(node) == "tensor" else 1))
    return None


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
