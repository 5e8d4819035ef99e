"""Scores: which expression is a product of queries and keys, and on which axis its keys lie."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from softlookup.lint.source import Source, is_self_attribute, number
from softlookup.lint.values import reaching

_QUERY = re.compile(r"(^|_)(q|qs|query|queries|xq|qh|wq)(_|\d*$)|query|^q[a-z]?$")
_KEY = re.compile(r"(^|_)(k|ks|key|keys|xk|kh|wk)(_|\d*$)|keys?(_|$)|^k[a-z]?$")
_SCORES = re.compile(
    r"score|attn|attention|energ|logit|affinit|(^|_)(att|atten|sim|dots|qk|alpha|aw|weights?)(_|\d*$)"
)
_THROUGH = re.compile(
    "masked_fill|masked_fill_|float|half|to|type_as|contiguous|clone|detach|div|div_|mul|mul_|add|"
    "add_|clamp|tanh|dropout|nan_to_num|type|double|bfloat16"
)
_FAR = 10


@dataclass(frozen=True)
class Product:
    """Scores = ``first`` times ``second``. ``key_from_right``: the axis of the keys, 1 is the last."""

    node: ast.expr
    first: ast.expr
    second: ast.expr
    key_from_right: int | None
    axes: str = ""  # letters of the scores, where an einsum writes them


def is_query(node: ast.AST) -> bool:
    """Say whether a name says that this is the queries."""
    return bool(_QUERY.search(label(node))) and not _KEY.search(label(node))


def is_key(node: ast.AST) -> bool:
    """Say whether a name says that this is the keys."""
    return bool(_KEY.search(label(node))) and not _QUERY.search(label(node))


def is_scores_name(name: str) -> bool:
    """Say whether a name says that this is scores or attention weights."""
    return bool(_SCORES.search(name.lower()))


def label(node: ast.AST) -> str:
    """Return the last name of an expression, ``k`` of ``k.transpose(-2, -1)``; "" where there is none."""
    while True:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and not is_self_attribute(node.func)
        ):
            node = node.func.value
        elif isinstance(node, ast.Call) and is_self_attribute(node.func):
            return node.func.attr.lower()
        elif isinstance(node, (ast.Subscript, ast.Starred)) or (
            isinstance(node, ast.Attribute) and node.attr in {"T", "mT"}
        ):
            node = node.value
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
            node = node.left
        elif isinstance(node, ast.Attribute):
            return node.attr.lower()
        else:
            return node.id.lower() if isinstance(node, ast.Name) else ""


def products_behind(source: Source, node: ast.expr, left: int = _FAR) -> Iterator[Product]:
    """Yield the products that an expression may come from, through scaling, masks, casts and names."""
    if left <= 0:
        return
    if (found := as_product(source, node)) is not None:
        yield found
    elif isinstance(node, ast.Name):
        for it in reaching(source, node):
            if it.value is not None and not it.parameter and it.position is None:
                yield from products_behind(source, it.value, left - 1)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
        yield from products_behind(source, node.left, left - 1)
        yield from products_behind(source, node.right, left - 1)
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr
        and _THROUGH.fullmatch(node.func.attr)
    ):
        yield from products_behind(source, node.func.value, left - 1)
    elif isinstance(node, ast.Call) and source.called(node) in {"masked_fill", "where", "clamp", "dropout"}:
        for given in node.args:
            yield from products_behind(source, given, left - 1)


def as_product(source: Source, node: ast.AST) -> Product | None:
    """Return the product that a node itself is: ``@``, matmul, bmm, or a two-operand einsum."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return _matmul(node, node.left, node.right)
    if not isinstance(node, ast.Call):
        return None
    name = source.called(node)
    if name in {"matmul", "bmm"}:
        operands = list(node.args)
        if len(operands) == 1 and isinstance(node.func, ast.Attribute):
            operands.insert(0, node.func.value)
        return _matmul(node, *operands) if len(operands) == 2 else None
    if name == "einsum" and len(node.args) == 3 and isinstance(node.args[0], ast.Constant):
        return _einsum(node, str(node.args[0].value), node.args[1], node.args[2])
    return None


def _matmul(node: ast.expr, first: ast.expr, second: ast.expr) -> Product:
    keys = 1 if is_query(first) and is_key(second) else 2 if is_key(first) and is_query(second) else None
    return Product(node, first, second, keys)


def _einsum(node: ast.expr, equation: str, first: ast.expr, second: ast.expr) -> Product | None:
    inputs, _, output = equation.partition("->")
    left, comma, right = inputs.partition(",")
    pieces = [
        it.split() if " " in equation.strip() and " " in it.strip() else list(it.strip())
        for it in (left, right, output)
    ]
    if not comma or not output or any("..." in "".join(it) for it in pieces):
        return None
    keys = (
        pieces[1]
        if is_query(first) and is_key(second)
        else pieces[0]
        if is_key(first) and is_query(second)
        else None
    )
    others = pieces[0] if keys is pieces[1] else pieces[1]
    own = [it for it in pieces[2] if keys is not None and it in keys and it not in others]
    where = len(pieces[2]) - pieces[2].index(own[0]) if len(own) == 1 else None
    return Product(node, first, second, where, " ".join(pieces[2]))


def softmaxes(source: Source) -> Iterator[tuple[ast.Call, ast.expr | None, ast.expr | None]]:
    """Yield each softmax call with what it normalises and its ``dim``, None where no dim is given."""
    for call in source.calls:
        if is_self_attribute(call.func):
            for value in source.attribute_values(source.owner(call), call.func.attr) if call.args else []:
                if isinstance(value, ast.Call) and source.dotted(value.func).endswith("nn.Softmax"):
                    yield call, call.args[0], _dim(value, 0)
        elif (
            isinstance(call.func, ast.Call)
            and source.dotted(call.func.func).endswith("nn.Softmax")
            and call.args
        ):
            yield call, call.args[0], _dim(call.func, 0)
        elif source.called(call) == "softmax":
            function = source.dotted(call.func).split(".")[0] in {"torch", "F", "nn", "softmax"}
            if isinstance(call.func, ast.Attribute) and not function:
                yield call, call.func.value, _dim(call, 0)
            elif call.args:
                yield call, call.args[0], _dim(call, 1)


def _dim(call: ast.Call, position: int) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg in {"dim", "axis", None}:
            return keyword.value
    return call.args[position] if len(call.args) > position else None


def fixed_dim(node: ast.expr | None) -> int | None:
    """Return a dim that is written as a number."""
    value = number(node)
    return None if value is None else int(value)
