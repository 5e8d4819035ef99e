"""Which written values may reach a name where it is used: a walk backwards through the statements above it.

Branches that exclude the use are left out, a branch that returns or raises is not followed, and a loop is
read once, from top to bottom.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from softlookup.lint.source import Function, Source

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_BLOCKS = ("body", "orelse", "finalbody")
_FAR = 8  # names followed one after the other before giving up


@dataclass(frozen=True)
class Binding:
    """One place that gives a name its value. ``value`` is None where none is written: a loop, an import."""

    statement: ast.AST
    value: ast.expr | None
    position: int | None = None  # of ``a, b = value``: which of them
    parameter: bool = False  # then ``value`` is the default


def reaching(source: Source, use: ast.Name) -> list[Binding]:
    """Return the bindings that this use may see; empty when nothing in the file says it."""
    if any(use.id in names for names in _comprehended(source, use)):
        return [Binding(use, None)]
    found: list[Binding] = []
    statement = source.statement(use)
    while statement in source.parent:
        above = source.parent[statement]
        more, sure = _backwards(_before(above, statement), use.id)
        found += more
        if sure:
            return found
        if isinstance(above, Function):
            own = [
                Binding(above, default, parameter=True)
                for name, default in parameters(above)
                if name == use.id
            ]
            if found or own:
                return found + own
            whole = [it for it in _enclosing_body(source, above) if not isinstance(it, _LEAVES)]
            return _backwards(whole, use.id)[0]  # a closure sees the last value
        found += [it for name, it in _header(above) if name == use.id]
        statement = above
    return found


def written(source: Source, node: ast.expr) -> list[ast.expr] | None:
    """Return the expressions that a name stands for, names followed; None when one of them is not written.

    A default does not count as written: a caller may give something else.
    """
    return _written(source, node, _FAR)


def _written(source: Source, node: ast.expr, left: int) -> list[ast.expr] | None:
    if not isinstance(node, ast.Name):
        return [node]
    bindings = reaching(source, node)
    if not bindings or not left:
        return None
    values: list[ast.expr] = []
    for it in bindings:
        if it.value is None or it.parameter or it.position is not None:
            return None
        deeper = _written(source, it.value, left - 1)
        if deeper is None:
            return None
        values += deeper
    return values


def everything_before(source: Source, node: ast.expr) -> list[ast.expr]:
    """Return a node and the written values of the names in it, and of the names in those."""
    found: list[ast.expr] = []
    pending = [node]
    while pending and len(found) < 200:
        current = pending.pop()
        if current in found:
            continue
        found.append(current)
        for name in (it for it in ast.walk(current) if isinstance(it, ast.Name)):
            pending += [
                it.value for it in reaching(source, name) if it.value is not None and not it.parameter
            ]
    return found


def parameters(function: Function) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield every parameter of a function with its default."""
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(given.defaults))
    yield from zip((it.arg for it in plain), [*defaults, *given.defaults], strict=True)
    yield from zip((it.arg for it in given.kwonlyargs), given.kw_defaults, strict=True)
    yield from ((it.arg, None) for it in (given.vararg, given.kwarg) if it is not None)


def leaves(body: Sequence[ast.stmt]) -> bool:
    """Say whether a block ends by going elsewhere: return, raise, continue, break."""
    return bool(body) and isinstance(body[-1], _LEAVES)


def _before(above: ast.AST, statement: ast.AST) -> list[ast.stmt]:
    """Return the statements of the same block that stand above this one."""
    for name in _BLOCKS:
        block = getattr(above, name, None)
        if isinstance(block, list) and statement in block:
            return block[: block.index(statement)]
    return []


def _enclosing_body(source: Source, function: Function) -> list[ast.stmt]:
    for it in source.ancestors(function):
        if isinstance(it, (Function, ast.Module)):
            return it.body
    return []


def _backwards(block: Sequence[ast.stmt], name: str) -> tuple[list[Binding], bool]:
    """Return the bindings at the end of a block, and whether one of them surely counts."""
    if leaves(block):
        return [], True
    found: list[Binding] = []
    for statement in reversed(block):
        more, sure = _inside(statement, name)
        found += more
        if sure:
            return found, True
    return found, False


def _inside(statement: ast.stmt, name: str) -> tuple[list[Binding], bool]:
    if isinstance(statement, ast.If):
        body, body_sure = _backwards(statement.body, name)
        other, other_sure = _backwards(statement.orelse, name)
        return body + other, body_sure and other_sure
    if isinstance(statement, ast.Match):
        return [it for case in statement.cases for it in _backwards(case.body, name)[0]], False
    own = [it for bound, it in _header(statement) if bound == name]
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        found, sure = _backwards(statement.body, name)
        return found + ([] if sure else own), sure or bool(own)
    if isinstance(statement, (ast.For, ast.AsyncFor, ast.While, ast.Try)):
        blocks = [statement.body, statement.orelse]
        if isinstance(statement, ast.Try):
            blocks += [*(it.body for it in statement.handlers), statement.finalbody]
        return own + [it for block in blocks if not leaves(block) for it in _backwards(block, name)[0]], False
    return own, bool(own)


def _header(statement: ast.AST) -> Iterator[tuple[str, Binding]]:
    """Yield the names that a statement itself binds, not those of its blocks."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _targets(statement, target, statement.value)
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield from _targets(statement, statement.target, statement.value)
    elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id, Binding(statement, None)
    elif isinstance(statement, (ast.For, ast.AsyncFor)):
        yield from _unknown(statement, [statement.target])
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        yield from _unknown(statement, [it.optional_vars for it in statement.items if it.optional_vars])
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from ((it.asname or it.name, Binding(statement, None)) for it in statement.names)
    elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name, Binding(statement, None)
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.NamedExpr):
        yield from _targets(statement, statement.value.target, statement.value.value)


def _targets(statement: ast.AST, target: ast.expr, value: ast.expr) -> Iterator[tuple[str, Binding]]:
    if isinstance(target, ast.Name):
        yield target.id, Binding(statement, value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
        for position, part in enumerate(target.elts):
            if isinstance(value, (ast.Tuple, ast.List)) and same:
                yield from _targets(statement, part, value.elts[position])
            elif isinstance(part, ast.Name):
                yield part.id, Binding(statement, value, position)
            else:
                yield from _unknown(statement, [part])


def _unknown(statement: ast.AST, targets: Iterable[ast.expr]) -> Iterator[tuple[str, Binding]]:
    for target in targets:
        yield from ((it.id, Binding(statement, None)) for it in ast.walk(target) if isinstance(it, ast.Name))


def _comprehended(source: Source, use: ast.Name) -> Iterator[set[str]]:
    """Yield the names that comprehensions and lambdas around a use bind for themselves."""
    for it in source.ancestors(use):
        if isinstance(it, ast.stmt):
            return
        if isinstance(it, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            bound = [name for generator in it.generators for name in ast.walk(generator.target)]
            yield {name.id for name in bound if isinstance(name, ast.Name)}
        if isinstance(it, ast.Lambda):
            yield {given.arg for given in [*it.args.posonlyargs, *it.args.args, *it.args.kwonlyargs]}
