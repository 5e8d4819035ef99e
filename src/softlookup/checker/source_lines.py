"""Lines that plain Python decides: branches, bounds of loops, names given a second time.

No torch call is recorded where a bug drops one. What is missing is then read off the file's own text.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable
from pathlib import Path

from softlookup.checker.calls import Sketch

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_CALLED = ("forward", "__call__")
_DEFINES = ("def ", "async def ", "class ")


class SourceLines:
    """The text of the file that holds a target; every answer is a line of that file, or None."""

    def __init__(self, sketch: Sketch) -> None:
        self._tree, self._target = target_in(sketch)
        nodes = _in_order(self._target)
        self._ifs = [node for node in nodes if isinstance(node, ast.If)]
        self._assigns = [node for node in nodes if isinstance(node, ast.Assign)]

    def branch(self, *groups: set[str]) -> int | None:
        """The first test that asks about a name of every group, alone or with its ``elif``."""
        for node in _in_order(self._target):
            if not isinstance(node, ast.If | ast.IfExp):
                continue
            if all(_asked(node.test) & names for names in groups):
                return node.test.lineno
            later = node.orelse[0] if isinstance(node, ast.If) and len(node.orelse) == 1 else None
            if isinstance(later, ast.If):
                asked = _asked(node.test), _asked(later.test)
                if all(any(names & one for one in asked) for names in groups):
                    return later.test.lineno
        return None

    def guard(self, line: int, names: set[str]) -> int | None:
        """The innermost ``if`` around a line that asks about one of these names, or about nothing at all."""
        around = [n for n in reversed(self._ifs) if any(_covers(part, line) for part in n.body)]
        asking = (n.lineno for n in around if _asked(n.test) & names or isinstance(n.test, ast.Constant))
        return next(asking, None)

    def skipped(self, names: set[str], carried_out: set[int]) -> int | None:
        """The first ``if`` that asks about one of these names and whose lines were not carried out."""
        asking = (node for node in self._ifs if _asked(node.test) & names)
        return next(
            (n.lineno for n in asking if not any(_covers(p, line) for p in n.body for line in carried_out)),
            None,
        )

    def rebound(self, names: set[str]) -> int | None:
        """Where an argument is given a value that does not depend on it, without asking about it."""
        for node in self._assigns:
            if _targets(node) & names and not _names(node.value) & names:
                around = (one for one in self._ifs if _covers(one, node.lineno))
                if not any(_asked(one.test) & names for one in around):
                    return node.lineno
        return None

    def overwritten(self, line: int) -> int | None:
        """The first assignment after a line that gives its name anew and forgets what was there."""
        made = next((node for node in self._assigns if _covers(node, line)), None)
        if made is None:
            return None
        names = _targets(made)
        later = (node for node in self._assigns if node.lineno > line and _targets(node) & names)
        return next((node.lineno for node in later if not _names(node.value) & names), None)

    def mentions(self, line: int, names: set[str]) -> bool:
        """Say whether the statement on this line uses one of these names, or an attribute called so."""
        return bool(_asked(self._statement(line)) & names)

    def makes(self, line: int, beginning: str) -> bool:
        """Say whether the statement on this line gives a value to a name that begins like this."""
        return any(
            _covers(n, line) and any(t.startswith(beginning) for t in _targets(n)) for n in self._assigns
        )

    def first_use(self, names: set[str]) -> int | None:
        """The first value that is worked out from one of these names, tests about them left out."""
        made = (node.lineno for node in self._assigns if _names(node.value) & names)
        return next(made, None)

    def following(self, names: set[str]) -> set[str]:
        """Return these names and all that are worked out from them."""
        found = set(names)
        for node in self._assigns:
            if _names(node.value) & found:
                found |= _targets(node)
        return found

    def caller(self, line: int) -> int | None:
        """Where the target calls the function, or the part, that a line lies in; None in its forward."""
        around = [n for n in _in_order(self._tree) if isinstance(n, _Definition) and _covers(n, line)]
        functions = [node.name for node in around if not isinstance(node, ast.ClassDef)]
        if not functions or (around[0] is self._target and functions[-1] in _CALLED):
            return None
        names = {functions[-1]}
        if functions[-1] in _CALLED:  # of a part: self.rotary = Rotary(...), then self.rotary(x)
            makers = (n for n in self._assigns if _names(n.value) & {node.name for node in around})
            names = {t.attr for n in makers for t in n.targets if isinstance(t, ast.Attribute)}
        calls = (node for node in _in_order(self._target) if isinstance(node, ast.Call))
        return next((call.lineno for call in calls if _called(call) in names), None)

    def axes_counted(self, line: int) -> tuple[str, list[tuple[int, int]]]:
        """The docstring of the function around a line, and (line, axis) where it reads ``x.shape[axis]``."""
        around = [n for n in _in_order(self._tree) if isinstance(n, ast.FunctionDef) and _covers(n, line)]
        if not around:
            return "", []
        nodes = (n for n in _in_order(around[-1]) if isinstance(n, ast.Subscript))
        read = ((n, n.slice) for n in nodes if isinstance(n.value, ast.Attribute) and n.value.attr == "shape")
        plain = ((n.lineno, i.value) for n, i in read if isinstance(i, ast.Constant))
        return ast.get_docstring(around[-1]) or "", [(at, i) for at, i in plain if isinstance(i, int)]

    def asked_from(self, line: int, *words: str) -> int | None:
        """Where the target calls what a line lies in with a keyword of one of these words."""
        called = self.caller(line)
        calls = (n for n in _in_order(self._target) if isinstance(n, ast.Call) and n.lineno == called)
        given = [keyword.arg or "" for call in calls for keyword in call.keywords]
        return called if any(word in name for name in given for word in words) else None

    def in_target(self, line: int) -> bool:
        """Say whether a line lies in the definition of the target itself."""
        return isinstance(self._target, _Definition) and _covers(self._target, line)

    def returned_after(self, line: int) -> int | None:
        """The first ``return`` at or after a line in the function that the line lies in."""
        around = [n for n in _in_order(self._target) if isinstance(n, _Definition) and _covers(n, line)]
        returns = (n for n in _in_order(around[-1]) if isinstance(n, ast.Return)) if around else ()
        found = (n for n in returns if n.lineno >= line or _covers(n, line))
        return next((node.lineno for node in found), None)

    def root_kept(self, line: int) -> int | None:
        """Where a root was worked out that a line takes from an attribute: ``self.scale = d**-0.5``."""
        statement = self._statement(line)
        if _has_root(statement):
            return None
        names = {node.attr for node in ast.walk(statement) if isinstance(node, ast.Attribute)}
        kept = (
            node.lineno
            for node in _in_order(self._tree)
            if isinstance(node, ast.Assign) and _has_root(node.value)
            if any(isinstance(target, ast.Attribute) and target.attr in names for target in node.targets)
        )
        return max((number for number in kept if number < line), default=None)

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
        plain = (node.lineno for node in self._assigns if isinstance(node.value, ast.Name))
        return max((line for line in plain if first < line < last), default=None)

    def blocks(self) -> int | None:
        """Bounds of a loop that are rounded: ``range(T // block)``, ``range(0, T - T % block, block)``."""
        rounded = set().union(*(_targets(node) for node in self._assigns if _rounds(node.value)))
        for node in _in_order(self._target):
            if not (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"
            ):
                continue
            if any(_rounds(bound) for bound in node.args):
                return node.lineno
            used = rounded & set().union(*(_names(bound) for bound in node.args))
            if used:
                return self._last_assignment(used, node.lineno)
        return None

    def backward(self) -> int | None:
        """In a hand-written backward, the last value that the gradients of its first two arguments share."""
        for function in _in_order(self._tree):
            if isinstance(function, ast.FunctionDef) and function.name == "backward":
                returned = next((n.value for n in reversed(function.body) if isinstance(n, ast.Return)), None)
                if not isinstance(returned, ast.Tuple) or len(returned.elts) < 2:
                    return function.lineno
                made = [node for node in function.body if isinstance(node, ast.Assign)]
                first, second = (_lines_behind(made, _names(value)) for value in returned.elts[:2])
                return max(first & second, default=function.lineno)
        return None

    def without_gradients(self, line: int) -> int | None:
        """The ``with torch.no_grad()`` that a line lies in."""
        for node in _in_order(self._tree):
            if isinstance(node, ast.With) and _covers(node, line):
                asked = {_called(n) for item in node.items for n in ast.walk(item) if isinstance(n, ast.Call)}
                if asked & {"no_grad", "inference_mode"}:
                    return node.lineno
        return None

    def _statement(self, line: int) -> ast.AST:
        covering = [n for n in _in_order(self._tree) if isinstance(n, ast.stmt) and _covers(n, line)]
        return covering[-1] if covering else ast.Pass()

    def _last_assignment(self, names: set[str], line: int) -> int | None:
        made = (node.lineno for node in self._assigns if node.lineno < line and _targets(node) & names)
        return max(made, default=None)


def target_in(sketch: Sketch) -> tuple[ast.AST, ast.AST]:
    """Return the tree of the file, and in it the definition of the target; the tree where it has none."""
    tree = _parse(sketch)
    defined = (n for n in _in_order(tree) if isinstance(n, _Definition) and n.lineno == sketch.line)
    return tree, next(defined, tree)


def _parse(sketch: Sketch) -> ast.AST:
    """Return the tree of the whole file; of the target alone where there is no file, as in a notebook."""
    try:
        return ast.parse(Path(sketch.file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        pass
    lines = sketch.source.splitlines()
    decorators = next((n for n, text in enumerate(lines) if text.lstrip().startswith(_DEFINES)), 0)
    above = max(sketch.line - decorators - 1, 0)  # so that the tree's lines are the file's
    try:
        return ast.parse("\n" * above + textwrap.dedent(sketch.source))
    except SyntaxError:
        return ast.Module([], [])


def _in_order(tree: ast.AST) -> list[ast.expr | ast.stmt]:
    """Return every statement and expression from top to bottom, outer before inner."""
    placed = [node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt)]
    return sorted(placed, key=lambda node: node.lineno)


def _covers(node: ast.AST, line: int) -> bool:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    return bool(first <= line <= last)


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _asked(test: ast.AST) -> set[str]:
    """Return the names in a test, ``training`` for ``self.training`` too."""
    return _names(test) | {n.attr for n in ast.walk(test) if isinstance(n, ast.Attribute)}


def _called(call: ast.Call) -> str:
    """Return the last part of the name of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _targets(node: ast.Assign) -> set[str]:
    return set().union(*(_names(target) for target in node.targets if not isinstance(target, ast.Subscript)))


def _has_root(node: ast.AST) -> bool:
    """Say whether a power or a square root is worked out here."""
    powers = (n for n in ast.walk(node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow))
    roots = (n for n in ast.walk(node) if isinstance(n, ast.Call) and _called(n) in {"sqrt", "rsqrt", "pow"})
    return any(powers) or any(roots)


def _rounds(node: ast.AST) -> bool:
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.FloorDiv | ast.Mod) for n in ast.walk(node))


def _lines_behind(made: Iterable[ast.Assign], names: set[str]) -> set[int]:
    """Return the lines of the assignments that these names depend on."""
    lines, wanted = set(), set(names)
    for node in reversed(list(made)):
        if _targets(node) & wanted:
            lines.add(node.lineno)
            wanted |= _names(node.value)
    return lines
