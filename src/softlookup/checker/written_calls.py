"""The calls of a target as its text has them, where none can be recorded: NumPy, JAX and what uses them.

The text is walked once, from top to bottom and into the functions that it calls: every branch is taken, and
nothing runs. What comes out has the form of a recording, so that steps are found in it in the same way. There
are no shapes: each tensor counts as one of four axes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from softlookup.checker.calls import Recorded, Sketch
from softlookup.checker.dataflow import FUSED, INPUTS
from softlookup.checker.evidence import Observation
from softlookup.checker.parameter_roles import role_of
from softlookup.checker.source_lines import target_in

#: What an expression stands for: the serial number of a tensor, several of them, or no tensor (None).
_Value: TypeAlias = "int | list[_Value] | None"
_Function: TypeAlias = ast.FunctionDef | ast.Lambda

_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul", ast.Pow: "pow",
    ast.FloorDiv: "floor_divide", ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or",
    ast.Invert: "bitwise_not", ast.Not: "logical_not", ast.USub: "neg", ast.Eq: "eq", ast.NotEq: "ne",
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
#: How NumPy, JAX and Keras spell what torch calls by another name.
_SPELLINGS = {
    "multiply": "mul", "divide": "div", "true_divide": "div", "subtract": "sub", "negative": "neg",
    "swapaxes": "transpose", "moveaxis": "permute", "dot": "matmul", "dot_general": "matmul", "tri": "tril",
    "select": "where", "concatenate": "cat", "invert": "bitwise_not", "less": "lt", "less_equal": "le",
    "greater": "gt", "greater_equal": "ge", "repeat": "repeat_interleave", "broadcast_to": "expand",
    "dot_product_attention": FUSED, "Dropout": "dropout", "split": "chunk", "average": "mean",
}  # fmt: skip
#: What makes a tensor out of numbers.
_MAKERS = frozenset(
    ["arange", "tril", "triu", "tri", "ones", "zeros", "full", "eye", "make_causal_mask", "linspace", "array"]
)
_RESHAPES = frozenset(["reshape", "view"])
_SIZES = frozenset(["shape", "dtype", "ndim", "size", "itemsize"])
_WRAPPERS = frozenset(["vmap", "jit", "partial", "checkpoint", "remat"])
_CALLED = ("forward", "call", "__call__")
_AXES = (1, 1, 1, 1)
_DEEPEST = 6  # functions in functions


def as_written(seen: Observation, sketch: Sketch, roles: Mapping[str, str]) -> Observation:
    """Return the observation with the calls that the target's text makes instead of those that were recorded.

    roles: parameter name -> role, such as "q" or "mask"
    """
    tree, target = target_in(sketch)
    walk = _Walk(tree, target)
    function = walk.methods.get("") if not isinstance(target, ast.ClassDef) else _entry(walk.methods)
    if function is None:
        return replace(seen, recorded=(), serials={})
    walk.enter(function, roles)
    return replace(seen, recorded=tuple(walk.records), serials=walk.contents)


def _entry(methods: Mapping[str, ast.FunctionDef]) -> ast.FunctionDef | None:
    return next((methods[name] for name in _CALLED if name in methods), None)


class _Walk:
    """One walk through a target."""

    def __init__(self, tree: ast.AST, target: ast.AST) -> None:
        self.records: list[Recorded] = []
        self.contents: dict[int, str] = {}  # serial -> role of an argument, or of a weight
        body = tree.body if isinstance(tree, ast.Module) else []
        self._functions: dict[str, _Function] = {n.name: n for n in body if isinstance(n, ast.FunctionDef)}
        own = target.body if isinstance(target, ast.ClassDef) else [target]
        self.methods = {n.name: n for n in own if isinstance(n, ast.FunctionDef)}
        if isinstance(target, ast.FunctionDef):
            self.methods = {"": target}
        self._names: list[dict[str, _Value]] = [{}]
        self._inputs: set[int] = set()  # serials of inputs that no projection has met
        self._via: list[int] = []
        self._products = 0
        self._last = 0

    def enter(self, function: ast.FunctionDef, roles: Mapping[str, str]) -> None:
        """Walk through the function that the target is called by."""
        for argument in _parameters(function):
            role = roles.get(argument)
            if role is None or role in {"causal", "scale", "dropout", "heads", "training", "window"}:
                continue
            content = {"x": "target", "lengths": "mask"}.get(role, role)
            serial = self._serial(content)
            self._names[-1][argument] = serial
            if content in INPUTS:
                self._inputs.add(serial)
        self._run(function.body)

    def _serial(self, content: str = "") -> int:
        self._last += 1
        if content:
            self.contents[self._last] = content
        return self._last

    def _run(self, body: Iterable[ast.stmt]) -> _Value:
        """Walk through statements; return what they return."""
        result: _Value = None
        for statement in body:
            result = self._statement(statement) or result
        return result

    def _statement(self, node: ast.stmt) -> _Value:
        if isinstance(node, ast.FunctionDef):
            self._functions[node.name] = node
        elif isinstance(node, ast.Assign):
            value = self._value(node.value)
            for target in node.targets:
                self._bind(target, value, node.lineno)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._bind(node.target, self._value(node.value), node.lineno)
        elif isinstance(node, ast.AugAssign):
            changed = self._call(_OPERATORS.get(type(node.op), ""), node, [node.target, node.value])
            self._bind(node.target, changed, node.lineno)
        elif isinstance(node, ast.Return):
            return self._value(node.value)
        elif isinstance(node, ast.Expr):
            self._value(node.value)
        elif isinstance(node, ast.If | ast.For | ast.While | ast.With):
            first = self._run(node.body)
            return first or self._run(getattr(node, "orelse", []))
        return None

    def _bind(self, target: ast.expr, value: _Value, line: int) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            several = value if isinstance(value, list) else [value] * len(target.elts)
            for part, one in zip(target.elts, several, strict=False):
                self._bind(part, one, line)
        elif isinstance(target, ast.Subscript):
            self._bind(
                target.value, self._made("__setitem__", line, [self._value(target.value), value]), line
            )
        else:
            name = ast.unparse(target)
            self._names[-1][name] = self._projected(value, name, line)

    def _projected(self, value: _Value, name: str, line: int) -> _Value:
        """An input that gets the name of queries, keys or values has met weights of that role."""
        role = role_of(name.rpartition(".")[2])
        if isinstance(value, int) and value in self._inputs and role in {"q", "k", "v", "qkv", "kv"}:
            return self._made("linear", line, [value, self._serial(role)])
        return value

    def _value(self, node: ast.expr | None) -> _Value:
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in self._names[-1]:
            return self._names[-1][ast.unparse(node)]
        if isinstance(node, ast.Attribute):
            return None if node.attr in _SIZES else self._attribute(node)
        if isinstance(node, ast.Tuple | ast.List):
            return [self._value(part) for part in node.elts]
        if isinstance(node, ast.BinOp):
            return self._call(_OPERATORS.get(type(node.op), ""), node, [node.left, node.right])
        if isinstance(node, ast.UnaryOp):
            return self._call(_OPERATORS.get(type(node.op), ""), node, [node.operand])
        if isinstance(node, ast.Compare):
            return self._call(_OPERATORS.get(type(node.ops[0]), ""), node, [node.left, *node.comparators])
        if isinstance(node, ast.Subscript):
            return self._call("__getitem__", node, [node.value, node.slice])
        if isinstance(node, ast.IfExp):
            first, second = self._value(node.body), self._value(node.orelse)
            return second if first is None else first
        if isinstance(node, ast.GeneratorExp | ast.ListComp):
            return self._comprehension(node)
        return self._called(node) if isinstance(node, ast.Call) else None

    def _attribute(self, node: ast.Attribute) -> _Value:
        value = self._value(node.value)
        if node.attr in {"T", "mT"} and isinstance(value, int):
            return self._made("transpose", node.lineno, [value])
        return value if node.attr == "at" else None

    def _comprehension(self, node: ast.GeneratorExp | ast.ListComp) -> _Value:
        loop = node.generators[0]
        items = self._value(loop.iter)
        several: list[_Value] = []
        for item in items if isinstance(items, list) and items else [None]:
            self._bind(loop.target, item, node.lineno)
            several.append(self._value(node.elt))
        return several if isinstance(items, list) and any(it is not None for it in items) else several[0]

    def _called(self, node: ast.Call) -> _Value:
        function, name = node.func, _last_name(node.func)
        if name in _SIZES:
            return None
        given = [*node.args, *(one.value for one in node.keywords)]
        if isinstance(function, ast.Call):  # Dense(8)(x), vmap(attend)(q, k, v)
            inner = _last_name(function.func)
            if inner in _WRAPPERS and function.args:
                return self._called(
                    ast.copy_location(ast.Call(function.args[0], node.args, node.keywords), node)
                )
            return self._call("dropout" if inner == "Dropout" else "linear", node, given)
        local = self._local(function)
        if "softmax" in name and any(not _flat(self._value(one)) for one in given):
            return self._call("softmax", node, given)  # the axis is chosen here, and not in the helper
        if local is not None and len(self._via) < _DEEPEST:
            return self._inside(local, node)
        if isinstance(function, ast.Attribute) and ast.unparse(function.value) == "self":
            return self._call("dropout" if "drop" in name else "linear", node, given, part=name)
        if isinstance(function, ast.Attribute) and self._value(function.value) is not None:  # x.sum(...)
            given = [function.value, *given]
        return self._call(name, node, given)

    def _local(self, function: ast.expr) -> _Function | None:
        if isinstance(function, ast.Lambda):
            return function
        if isinstance(function, ast.Name):
            return self._functions.get(function.id)
        is_own = isinstance(function, ast.Attribute) and ast.unparse(function.value) in {"self", "cls"}
        return self.methods.get(_last_name(function)) if is_own else None

    def _inside(self, function: _Function, node: ast.Call) -> _Value:
        """Walk through a function of the same file with the arguments of a call."""
        given = [self._value(argument) for argument in node.args]
        named = {one.arg: self._value(one.value) for one in node.keywords if one.arg}
        names = [name for name in _parameters(function) if name != "self"]
        inner = {
            k: v for k, v in self._names[-1].items() if "." in k or not isinstance(function, ast.FunctionDef)
        }
        self._names.append({**inner, **dict(zip(names, given, strict=False)), **named})
        self._via.insert(0, node.lineno)
        body = function.body
        result = self._run(body) if isinstance(body, list) else self._value(body)
        self._via.pop(0)
        self._names.pop()
        return result

    def _call(self, name: str, node: ast.expr | ast.stmt, given: list[ast.expr], part: str = "") -> _Value:
        """Note a call of something that is not in the file."""
        values = [self._value(argument) for argument in given]
        reads = [serial for value in values for serial in _flat(value)]
        if not reads and name not in _MAKERS:
            return None
        role = role_of(part.removesuffix("_proj").removesuffix("_projection").removesuffix("_dense"))
        if role in {"q", "k", "v", "qkv", "kv"} and reads and reads[0] in self._inputs:
            reads.append(self._serial(role))
        options = {}
        if given and isinstance(given[0], ast.Constant) and isinstance(given[0].value, str):
            options["equation"] = given[0].value
        number = any(not _flat(v) for v in values) and name not in {"einsum", "where"}
        return self._made(name, node.lineno, reads, options, number=number)

    def _made(
        self,
        name: str,
        line: int,
        values: Iterable[_Value],
        options: dict[str, str] | None = None,
        *,
        number: bool = False,
    ) -> int:
        """Note a call, and return the serial number of what it makes."""
        reads = tuple(serial for value in values for serial in _flat(value))
        op, made = _SPELLINGS.get(name, name), self._serial()
        if reads and set(reads) <= self._inputs:
            self._inputs.add(made)
        self._products += op in {"matmul", "einsum", "bmm", "tensordot"}
        cut = op in _RESHAPES and self._products < 2  # heads are split before they meet, and merged later
        after = (*_AXES, 1) if cut else _AXES[1:] if op == "mean" else _AXES
        self.records.append(
            Recorded(
                op=op,
                line=line,
                inputs=(_AXES,) * len(reads),
                outputs=(after,),
                numbers=(0.5,) if number else (),
                options=options or {},
                reads=reads,
                writes=(made,),
                via=tuple(self._via),
            )
        )
        return made


def _flat(value: _Value) -> list[int]:
    if isinstance(value, list):
        return [serial for one in value for serial in _flat(one)]
    return [] if value is None else [value]


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _parameters(function: _Function) -> list[str]:
    arguments = function.args
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
