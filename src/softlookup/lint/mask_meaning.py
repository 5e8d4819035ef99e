"""What True means in a mask, read from how the mask is made and, where that is not written, from its name."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from typing import Literal

from softlookup.lint.source import Source, argument, is_self_attribute, number
from softlookup.lint.values import Binding, reaching

Kind = Literal["allowed", "blocked"]
_FAR = 12
_ALLOWED = re.compile(
    r"(^|_)(allowed|keep|kept|valid|visible|attendable|non_?pad(ding)?|not_?pad(ding)?)(_|$)"
)
_BLOCKED = re.compile(r"(^|_)(blocked|hidden|forbidden|invalid|key_padding|masked_out|is_pad(ding)?)(_|$)")
_PAD = re.compile(
    r"(^|[._])(pad|padding|pad_?id|pad_?idx|padidx)([._]|$)|pad_?(token|index|idx|id|value)|padding_?(idx|index|id|value)",
    re.I,
)
_LENGTHS = re.compile(r"(^|_|\.)(\w*len(gth)?s?|seqlens?)(_|\[|\.|$)", re.I)
_SHAPES = re.compile(
    "unsqueeze|squeeze|view|reshape|expand|expand_as|repeat|repeat_interleave|contiguous|clone|"
    "detach|cuda|cpu|transpose|permute|t|flatten|bool|byte|to|type|rearrange|int|long|float"
)
_NUMBERS = {"int", "long", "float", "half", "double"}


@dataclass(frozen=True)
class Meaning:
    """``kind``: what True (or 1) means. ``boolean``: surely a bool tensor. ``because``: how that is known."""

    kind: Kind
    because: str
    boolean: bool = True
    made: bool = True  # False: read from a name only

    def negated(self) -> Meaning:
        """Return the meaning of the negated mask."""
        return replace(self, kind="blocked" if self.kind == "allowed" else "allowed")


def meaning(source: Source, node: ast.expr, left: int = _FAR) -> Meaning | None:
    """Return what True means in a mask; None where the text does not decide."""
    if left <= 0:
        return None
    if isinstance(node, ast.Name):
        return _of_name(source, node, left - 1)
    if isinstance(node, ast.Attribute):
        values = source.attribute_values(source.owner(node), node.attr) if is_self_attribute(node) else []
        made = _agree([meaning(source, it, left - 1) for it in values if not _is_none(it)])
        return made if values else by_name(node.attr)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        inner = meaning(source, node.operand, left - 1)
        return inner.negated() if inner and inner.boolean else None
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _of_comparison(source, node.left, node.ops[0], node.comparators[0], left - 1)
    if isinstance(node, ast.BinOp):
        return _of_operator(source, node, left - 1)
    if isinstance(node, ast.Subscript):
        return meaning(source, node.value, left - 1)
    if isinstance(node, ast.IfExp):
        return _agree([meaning(source, it, left - 1) for it in (node.body, node.orelse) if not _is_none(it)])
    return _of_call(source, node, left - 1) if isinstance(node, ast.Call) else None


def by_name(name: str) -> Meaning | None:
    """Return what a clear name says True means."""
    lowered = name.lower()
    allowed, blocked = bool(_ALLOWED.search(lowered)), bool(_BLOCKED.search(lowered))
    if allowed == blocked or "mask" not in lowered:
        return None
    return Meaning("allowed" if allowed else "blocked", f"it is called `{name}`", made=False)


def is_pad(node: ast.AST) -> bool:
    """Say whether an expression is the id of the padding token."""
    return bool(_PAD.search(ast.unparse(node)))


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _agree(found: list[Meaning | None]) -> Meaning | None:
    first = found[0] if found else None
    if first is None or any(it is None or it.kind != first.kind for it in found):
        return None
    return replace(first, boolean=all(it is not None and it.boolean for it in found))


def _of_name(source: Source, node: ast.Name, left: int) -> Meaning | None:
    bindings = [
        it for it in reaching(source, node) if it.value is None or not _is_none(it.value) or it.parameter
    ]
    if changed_in_place(source, node, bindings):
        return None
    made = [_of_binding(source, node.id, it, left) for it in bindings]
    return _agree(made)


def _of_binding(source: Source, name: str, binding: Binding, left: int) -> Meaning | None:
    if binding.parameter:
        return by_name(name)
    if binding.value is None or binding.position is not None:
        return None
    return meaning(source, binding.value, left)


def changed_in_place(source: Source, node: ast.Name, bindings: list[Binding]) -> bool:
    """Say whether something writes into a named tensor before its use, so that its making decides nothing."""
    first = min((getattr(it.statement, "lineno", 0) for it in bindings), default=0)
    function = source.function(node)
    stored = [it.value for it in source.of_kind(ast.Subscript) if isinstance(it.ctx, ast.Store)]
    updated = [it.target for it in source.of_kind(ast.AugAssign)]
    called = [
        it.func.value for it in source.calls if isinstance(it.func, ast.Attribute) and it.func.attr[-1] == "_"
    ]
    return any(
        isinstance(it, ast.Name)
        and it.id == node.id
        and first <= it.lineno < node.lineno
        and source.function(it) is function
        for it in [*stored, *updated, *called]
    )


def _of_comparison(
    source: Source, one: ast.expr, op: ast.cmpop, other: ast.expr, left: int
) -> Meaning | None:
    text = f"it is made by `{ast.unparse(one)} {_SIGNS.get(type(op), '?')} {ast.unparse(other)}`"
    if isinstance(op, (ast.NotEq, ast.Eq)):
        if is_pad(other) or is_pad(one):
            return Meaning("allowed" if isinstance(op, ast.NotEq) else "blocked", text)
        value = number(other)
        if value not in {0.0, 1.0} and not isinstance(getattr(other, "value", None), bool):
            return None
        truth = bool(value) if value is not None else bool(getattr(other, "value", None))
        inner = meaning(source, one, left)
        same = truth is isinstance(op, ast.Eq)
        return None if inner is None else replace(inner if same else inner.negated(), boolean=True)
    if isinstance(op, ast.Gt) and number(other) in {0.0, 0.5}:
        inner = meaning(source, one, left)
        return None if inner is None else replace(inner, boolean=True)
    positions, lengths = _counts_positions(source, one), _LENGTHS.search(ast.unparse(other))
    if positions and lengths and isinstance(op, (ast.Lt, ast.GtE)):
        return Meaning("allowed" if isinstance(op, ast.Lt) else "blocked", text)
    if (
        _counts_positions(source, other)
        and _LENGTHS.search(ast.unparse(one))
        and isinstance(op, (ast.Gt, ast.LtE))
    ):
        return Meaning("allowed" if isinstance(op, ast.Gt) else "blocked", text)
    return None


_SIGNS: dict[type[ast.cmpop], str] = {
    ast.NotEq: "!=",
    ast.Eq: "==",
    ast.Lt: "<",
    ast.Gt: ">",
    ast.LtE: "<=",
    ast.GtE: ">=",
}


def _counts_positions(source: Source, node: ast.expr) -> bool:
    if any(isinstance(it, ast.Call) and source.called(it) == "arange" for it in ast.walk(node)):
        return True
    names = [it for it in ast.walk(node) if isinstance(it, ast.Name)]
    values = [binding.value for name in names for binding in reaching(source, name)]
    return any(isinstance(it, ast.Call) and "arange(" in ast.unparse(it) for it in values)


def _of_operator(source: Source, node: ast.BinOp, left: int) -> Meaning | None:
    if isinstance(node.op, ast.Sub) and number(node.left) == 1:
        inner = meaning(source, node.right, left)
        return inner.negated() if inner else None
    if isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        both = [meaning(source, it, left) for it in (node.left, node.right)]
        return _agree(both)
    return None


def _of_call(source: Source, call: ast.Call, left: int) -> Meaning | None:
    name = source.called(call)
    on = _subject(source, call)
    if name in {"tril", "triu"} and on is not None:
        return _triangle(source, call, name, on)
    if name == "logical_not" and on is not None:
        inner = meaning(source, on, left)
        return replace(inner.negated(), boolean=True) if inner else None
    if name in {"ne", "eq", "lt", "ge"} and on is not None and (given := call.args[-1:]):
        ops = {"ne": ast.NotEq(), "eq": ast.Eq(), "lt": ast.Lt(), "ge": ast.GtE()}
        return _of_comparison(source, on, ops[name], given[0], left)
    if name in {"logical_and", "logical_or"} and on is not None and call.args:
        return _agree([meaning(source, it, left) for it in (on, call.args[-1])])
    if not _SHAPES.fullmatch(name) or on is None:
        return None
    inner = meaning(source, on, left)
    if inner is None:
        return None
    if name in {"transpose", "t"} and "tri" in inner.because:
        return _swapped(source, on, left)
    if name == "bool" or (
        name in {"to", "type"} and "bool" in ast.unparse(call.args[0] if call.args else call)
    ):
        return replace(inner, boolean=True)
    if name in _NUMBERS or (name in {"to", "type"} and "dtype" in ast.unparse(call)) or _numeric_dtype(call):
        return replace(inner, boolean=False)
    return inner


def _numeric_dtype(call: ast.Call) -> bool:
    words = " ".join(ast.unparse(it) for it in [*call.args, *(it.value for it in call.keywords)])
    return bool(re.search(r"torch\.(float|int|long|half|bfloat|uint8)", words))


def _swapped(source: Source, node: ast.expr, left: int) -> Meaning | None:
    """Return the meaning of a transposed triangle: upper becomes lower, so True means the other thing."""
    call = node
    while isinstance(call, ast.Compare):
        call = call.left
    if isinstance(call, ast.Call) and source.called(call) == "triu" and _diagonal(call) == 0:
        return Meaning(
            "allowed", "it is a transposed `triu`, so a lower triangle", boolean=isinstance(node, ast.Compare)
        )
    return None


def _subject(source: Source, call: ast.Call) -> ast.expr | None:
    """Return what a call works on: x of ``x.bool()`` and of ``torch.logical_not(x)``."""
    if isinstance(call.func, ast.Attribute) and source.dotted(call.func.value).split(".")[0] not in {
        "torch",
        "F",
        "einops",
    }:
        return call.func.value
    return call.args[0] if call.args else None


def _diagonal(call: ast.Call) -> float | None:
    method = len(call.args) == 0 or number(call.args[0]) is not None
    given = argument(call, "diagonal", 0 if method else 1)
    return 0.0 if given is None else number(given)


def _triangle(source: Source, call: ast.Call, name: str, on: ast.expr) -> Meaning | None:
    """Return the meaning of a triangle of ones: the lower one is what a causal query may see."""
    ones = on
    if isinstance(ones, ast.Name):
        values = [it.value for it in reaching(source, ones)]
        if len(values) != 1 or not isinstance(values[0], ast.Call):
            return None
        ones = values[0]
    boolean = False
    while (
        isinstance(ones, ast.Call)
        and _SHAPES.fullmatch(source.called(ones))
        and isinstance(ones.func, ast.Attribute)
    ):
        boolean = boolean or source.called(ones) == "bool"
        ones = ones.func.value
    if not isinstance(ones, ast.Call) or source.called(ones) not in {"ones", "ones_like", "full"}:
        return None
    words = ast.unparse(ones)
    if source.called(ones) == "full" and not re.search(r",\s*(True|1)\b", words):
        return None
    boolean = boolean or "bool" in words or (source.called(ones) == "full" and "True" in words)
    diagonal = _diagonal(call)
    because = f"it is made by `{ast.unparse(call)}`"
    if name == "tril" and diagonal == 0:
        return Meaning("allowed", because, boolean)
    if name == "triu" and diagonal == 1:
        return Meaning("blocked", because, boolean)
    if name == "triu" and diagonal == 0:
        return Meaning("blocked", because, boolean)  # the diagonal too, or transposed later
    return None
