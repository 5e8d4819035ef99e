"""One parsed file: what stands in what, what a dotted name means, what a class assigns to self."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import TypeGuard, TypeVar

Function = ast.FunctionDef | ast.AsyncFunctionDef
Node = TypeVar("Node", bound=ast.AST)


class Source:
    """The text of a file, parsed once and never imported.

    Raises: SyntaxError when the text is no Python of this version, ValueError when it holds a null byte.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.parent: dict[ast.AST, ast.AST] = {}
        self._by_kind: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        self._ordered: dict[type[ast.AST], list[ast.AST]] = {}
        pending: list[ast.AST] = [self.tree]
        while pending:
            node = pending.pop()
            self._by_kind[type(node)].append(node)
            for child in _children(node):
                self.parent[child] = node
                pending.append(child)

    def of_kind(self, kind: type[Node]) -> list[Node]:
        """Return every node of this kind, in the order of the text."""
        if kind not in self._ordered:
            place = [(getattr(it, "lineno", 0), getattr(it, "col_offset", 0)) for it in self._by_kind[kind]]
            order = sorted(range(len(place)), key=place.__getitem__)
            self._ordered[kind] = [self._by_kind[kind][it] for it in order]
        return [node for node in self._ordered[kind] if isinstance(node, kind)]

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Every call, in the order of the text."""
        return self.of_kind(ast.Call)

    @cached_property
    def imported(self) -> dict[str, str]:
        """Names that stand for something imported under another name, with the full name of it."""
        names: dict[str, str] = {}
        for plain in self.of_kind(ast.Import):
            names.update({it.asname: it.name for it in plain.names if it.asname})
        for out_of in self.of_kind(ast.ImportFrom):
            if out_of.module and not out_of.level:
                names.update({it.asname or it.name: f"{out_of.module}.{it.name}" for it in out_of.names})
        return names

    def dotted(self, node: ast.AST) -> str:
        """Return ``torch.nn.functional.softmax`` for ``F.softmax``; "" for what is no dotted name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        parts.append(self.imported.get(node.id, node.id))
        return ".".join(reversed(parts))

    def called(self, call: ast.Call) -> str:
        """Return the last part of what is called: ``softmax`` for ``F.softmax(x)`` and ``x.softmax()``."""
        if isinstance(call.func, ast.Attribute):
            return call.func.attr
        return self.dotted(call.func).rpartition(".")[2]

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around this one, the nearest first."""
        while node in self.parent:
            node = self.parent[node]
            yield node

    def statement(self, node: ast.AST) -> ast.AST:
        """Return the statement that this node stands in."""
        while not isinstance(node, ast.stmt) and node in self.parent:
            node = self.parent[node]
        return node

    def function(self, node: ast.AST) -> Function | None:
        """Return the innermost function around a node."""
        return next((it for it in self.ancestors(node) if isinstance(it, Function)), None)

    def owner(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the class around a node."""
        return next((it for it in self.ancestors(node) if isinstance(it, ast.ClassDef)), None)

    def qualified_name(self, node: ast.AST) -> str:
        """Return ``Class.method`` of what a node stands in, ``<module>`` outside."""
        names = [
            it.name
            for it in self.ancestors(node)
            if isinstance(it, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        ]
        return ".".join(reversed(names)) or "<module>"

    def family(self, owner: ast.ClassDef | None) -> list[ast.ClassDef]:
        """Return a class and its base classes, as far as they stand in this file."""
        family: list[ast.ClassDef] = []
        pending = [owner]
        while pending:
            node = pending.pop()
            if node is not None and node not in family:
                family.append(node)
                pending += [self._classes.get(base.id) for base in node.bases if isinstance(base, ast.Name)]
        return family

    def attribute_values(self, owner: ast.ClassDef | None, name: str) -> list[ast.expr]:
        """Return everything that the class or a base class in this file assigns to ``self.name``."""
        return [value for node in self.family(owner) for value in self._attributes[node][name]]

    def method(self, owner: ast.ClassDef | None, name: str) -> Function | None:
        """Return the method or property of this name, of the class or of a base class in this file."""
        body = [it for node in self.family(owner) for it in node.body]
        return next((it for it in body if isinstance(it, Function) and it.name == name), None)

    def submodule_kinds(self, call: ast.Call) -> list[str]:
        """Return what made ``self.attn`` where ``self.attn(...)`` is called: names of constructors."""
        if not is_self_attribute(call.func):
            return []
        values = self.attribute_values(self.owner(call), call.func.attr)
        return [self.dotted(value.func) for value in values if isinstance(value, ast.Call)]

    @cached_property
    def unpackings(self) -> dict[tuple[Function | None, str], list[tuple[ast.Assign, ast.Name]]]:
        """Every ``B, T, C = x.shape`` or ``= x.size()`` by its function and the name of x."""
        found: dict[tuple[Function | None, str], list[tuple[ast.Assign, ast.Name]]] = defaultdict(list)
        for statement in self.of_kind(ast.Assign):
            value = statement.value
            if not isinstance(statement.targets[0], ast.Tuple) or len(statement.targets[0].elts) < 2:
                continue
            asked = value.func if isinstance(value, ast.Call) and not value.args else value
            if not isinstance(asked, ast.Attribute) or asked.attr not in {"shape", "size"}:
                continue
            if isinstance(asked.value, ast.Name):
                found[self.function(statement), asked.value.id].append((statement, asked.value))
        return found

    @cached_property
    def _classes(self) -> dict[str, ast.ClassDef]:
        return {node.name: node for node in self.of_kind(ast.ClassDef)}

    @cached_property
    def _attributes(self) -> dict[ast.AST, dict[str, list[ast.expr]]]:
        found: dict[ast.AST, dict[str, list[ast.expr]]] = defaultdict(lambda: defaultdict(list))
        pairs = [(target, it.value) for it in self.of_kind(ast.Assign) for target in it.targets]
        pairs += [(it.target, it.value) for it in self.of_kind(ast.AnnAssign) if it.value is not None]
        for target, value in pairs:
            owner = self.owner(target)
            if owner is not None and is_self_attribute(target):
                found[owner][target.attr].append(value)
        for call in self.calls:
            owner, name, buffer = self.owner(call), argument(call, "name", 0), argument(call, "tensor", 1)
            if self.called(call) != "register_buffer" or owner is None or buffer is None:
                continue
            if isinstance(name, ast.Constant):
                found[owner][str(name.value)].append(buffer)
        return found


def _children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes right below one, without the operators and contexts that all nodes share."""
    found: list[ast.AST] = []
    for name in node._fields:
        if name in {"ctx", "op", "ops"}:
            continue
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif value.__class__ is list:
            found += [it for it in value if isinstance(it, ast.AST)]
    return found


def is_self_attribute(node: ast.AST) -> TypeGuard[ast.Attribute]:
    """Say whether a node is ``self.something``."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """Return what a call gives for a parameter, by keyword or by position."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    given = call.args
    if position is None or position >= len(given) or any(isinstance(it, ast.Starred) for it in given):
        return None
    return given[position]


def number(node: ast.AST | None) -> float | None:
    """Return the number that is written there, sign included: ``-1e9``, ``float("-inf")``, ``-math.inf``."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = number(node.operand)
        return value if value is None or isinstance(node.op, ast.UAdd) else -value
    if isinstance(node, ast.Constant):
        kind = type(node.value)
        return float(node.value) if kind in (int, float) else None  # type: ignore[arg-type]
    if isinstance(node, ast.Attribute) and node.attr in {"inf", "Inf"}:
        return float("inf")
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "float"
        and node.args
    ):
        word = node.args[0]
        if isinstance(word, ast.Constant) and str(word.value).lower().lstrip("+-") in {"inf", "infinity"}:
            return float(str(word.value))
    return None
