"""Axes that an unpacking names: after ``B, T, C = x.shape`` the axes of x are B, T and C."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from softlookup.lint.source import Source
from softlookup.lint.values import Binding, reaching


def unpacked(source: Source, node: ast.Name, bindings: Sequence[Binding]) -> tuple[str | None, ...] | None:
    """Return the names that a tensor's shape was unpacked into above this use; None when it was not.

    bindings: where the tensor has its value from at this use; it must be the same at the unpacking
    """
    for statement, shaped in source.unpackings.get((source.function(node), node.id), []):
        target = statement.targets[0]
        if not isinstance(target, ast.Tuple) or statement.lineno >= node.lineno:
            continue
        if _same_block(source, statement, node) and reaching(source, shaped) == bindings:
            names = [it.id if isinstance(it, ast.Name) else "_" for it in target.elts]
            return tuple(None if name == "_" or _changed(source, name, statement) else name for name in names)
    return None


def _same_block(source: Source, statement: ast.stmt, node: ast.AST) -> bool:
    """Say whether the use stands in the block of the unpacking, or deeper: not in another branch."""
    above = source.parent[statement]
    below = next((it for it in [node, *source.ancestors(node)] if source.parent.get(it) is above), None)
    blocks = [getattr(above, name, []) for name in ("body", "orelse", "finalbody")]
    return any(statement in block and below in block for block in blocks if isinstance(block, list))


def _changed(source: Source, name: str, statement: ast.stmt) -> bool:
    """Say whether the function gives a size another value: ``batch //= heads``."""
    function = source.function(statement)
    changed = [it.target for it in source.of_kind(ast.AugAssign)]
    return any(
        isinstance(it, ast.Name) and it.id == name and source.function(it) is function for it in changed
    )
