"""Lines that plain Python decides: branches, bounds of loops, names given a second time.

No torch call is recorded where a bug drops one. What is missing is then read off the file's own text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from softlookup.checker.calls import Sketch

_BLOCKS = ast.FloorDiv | ast.Mod


class SourceLines:
    """The text of the file that holds a target; every answer is a line of that file, or None."""

    def __init__(self, sketch: Sketch) -> None:
        self._tree = _parse(sketch)
        self._target = next((n for n in ast.walk(self._tree) if _is_definition(n) and n.lineno == sketch.line), self._tree)

    def branch(self, *groups: set[str]) -> int | None:
        """The first test that asks about a name of every group, alone or as ``if`` and ``elif`` of one chain."""
        for node in _in_order(self._target):
            if not isinstance(node, ast.If | ast.IfExp):
                continue
            if all(_names(node.test) & names for names in groups):
                return node.test.lineno
            later = node.orelse[0] if isinstance(node, ast.If) and len(node.orelse) == 1 else None
            if isinstance(later, ast.If):
                asked = _names(node.test), _names(later.test)
                if all(any(names & one for one in asked) for names in groups):
                    return later.test.lineno
        return None

    def guard(self, line: int, names: set[str]) -> int | None:
        """The innermost ``if`` around a line that asks about one of these names, or about nothing at all."""
        around = [n for n in _in_order(self._target) if isinstance(n, ast.If) and any(_covers(part, line) for part in n.body)]
        return next((n.lineno for n in reversed(around) if _names(n.test) & names or isinstance(n.test, ast.Constant)), None)

    def rebound(self, names: set[str]) -> int | None:
        """Where an argument is given a value that does not depend on it, without asking about it."""
        for node in _in_order(self._target):
            if isinstance(node, ast.Assign) and _targets(node) & names and not _names(node.value) & names:
                around = (n for n in ast.walk(self._target) if isinstance(n, ast.If) and n is not node and _covers(n, node.lineno))
                if not any(_names(n.test) & names for n in around):
                    return node.lineno
        return None

    def overwritten(self, line: int) -> int | None:
        """The first assignment after a line that gives its name anew and forgets what was there."""
        made = next((n for n in ast.walk(self._target) if isinstance(n, ast.Assign) and _covers(n, line)), None)
        if made is None:
            return None
        later = (n for n in _in_order(self._target) if isinstance(n, ast.Assign) and n.lineno > line)
        return next((n.lineno for n in later if _targets(n) & _targets(made) and not _targets(made) & _names(n.value)), None)

    def mentions(self, line: int, names: set[str]) -> bool:
        """Say whether the statement on this line uses one of these names."""
        return bool(_names(self._statement(line)) & names)

    def following(self, names: set[str]) -> set[str]:
        """Return these names and all that are worked out from them."""
        found = set(names)
        for node in _in_order(self._target):
            if isinstance(node, ast.Assign) and _names(node.value) & found:
                found |= _targets(node)
        return found

    def drops(self, line: int) -> bool:
        """Say whether the statement on this line throws its value away."""
        return isinstance(self._statement(line), ast.Expr)

    def number_behind(self, line: int) -> int | None:
        """Keys or heads picked by a plain number, ``k[:visible]``: the line that worked the number out."""
        subscripts = (n for n in ast.walk(self._target) if isinstance(n, ast.Subscript) and _covers(n, line))
        picked = set().union(*(_names(node.slice) for node in subscripts))
        return self._last_assignment(picked, line)

    def alias(self, first: int, last: int) -> int | None:
        """A plain ``b = a`` strictly between two lines: a step of which only the name is left."""
        plain = [n.lineno for n in ast.walk(self._tree) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Name)]
        return max((line for line in plain if first < line < last), default=None)

    def blocks(self) -> int | None:
        """The bounds of a loop that are rounded: ``range(T // block)``, ``range(0, T - T % block, block)``."""
        rounded = set()
        for node in _in_order(self._target):
            if isinstance(node, ast.Assign) and _rounds(node.value):
                rounded |= _targets(node)
        for node in _in_order(self._target):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
                if any(_rounds(argument) for argument in node.args):
                    return node.lineno
                used = set().union(*(_names(argument) for argument in node.args)) & rounded
                if used:
                    return self._last_assignment(used, node.lineno)
        return None

    def backward(self) -> int | None:
        """In a hand-written backward: the last value that the gradients of the first two arguments have in common."""
        functions = [n for n in ast.walk(self._tree) if isinstance(n, ast.FunctionDef) and n.name == "backward"]
        for function in functions:
            returned = next((n.value for n in reversed(function.body) if isinstance(n, ast.Return)), None)
            if not isinstance(returned, ast.Tuple) or len(returned.elts) < 2:
                return function.lineno
            made = [n for n in function.body if isinstance(n, ast.Assign)]
            shared = _lines_behind(made, _names(returned.elts[0])) & _lines_behind(made, _names(returned.elts[1]))
            return max(shared, default=function.lineno)
        return None

    def _statement(self, line: int) -> ast.AST:
        covering = [n for n in ast.walk(self._tree) if isinstance(n, ast.stmt) and _covers(n, line)]
        return max(covering, key=lambda n: (n.lineno, -(n.end_lineno or 0)), default=ast.Pass())

    def _last_assignment(self, names: set[str], line: int) -> int | None:
        made = (n.lineno for n in ast.walk(self._target) if isinstance(n, ast.Assign) and n.lineno < line and _targets(n) & names)
        return max(made, default=None)


def _parse(sketch: Sketch) -> ast.AST:
    """Return the tree of the whole file; of the target alone where there is no file, as in a notebook."""
    try:
        return ast.parse(Path(sketch.file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        pass
    lines = sketch.source.splitlines()
    above = next((n for n, text in enumerate(lines) if text.lstrip().startswith(("def ", "async def ", "class "))), 0)
    start = max(sketch.line - above - 1, 0)
    indented = bool(lines) and lines[0][:1].isspace()
    text = "\n" * (start - indented) + ("if True:\n" if indented else "") + sketch.source
    try:
        return ast.parse(text)
    except SyntaxError:
        return ast.Module([], [])


def _is_definition(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def _in_order(tree: ast.AST) -> list[ast.AST]:
    """Return every node that has a line, from top to bottom, outer before inner."""
    placed = [node for node in ast.walk(tree) if hasattr(node, "lineno")]
    return sorted(placed, key=lambda node: node.lineno)


def _covers(node: ast.AST, line: int) -> bool:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    return bool(first <= line <= last)


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _targets(node: ast.Assign) -> set[str]:
    return set().union(*(_names(target) for target in node.targets if not isinstance(target, ast.Subscript)))


def _rounds(node: ast.AST) -> bool:
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, _BLOCKS) for n in ast.walk(node))


def _lines_behind(made: Iterable[ast.Assign], names: set[str]) -> set[int]:
    """Return the lines of the assignments that these names depend on."""
    lines, wanted = set(), set(names)
    for node in reversed(list(made)):
        if _targets(node) & wanted:
            lines.add(node.lineno)
            wanted |= _names(node.value)
    return lines

