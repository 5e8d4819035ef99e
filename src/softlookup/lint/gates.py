"""Does a value depend on the training mode: in its expression, through names, or by a branch around it?"""

from __future__ import annotations

import ast
import re

from softlookup.lint.source import Function, Source, is_self_attribute
from softlookup.lint.values import everything_before, leaves

_NO_RATE = re.compile(r"(drop\w*|\bp)\s*(==|<=)\s*0|not self\.\w*drop")
_MODE = re.compile(r"train|deterministic|inference|(^|\W)eval|is_test|no_grad")


def depends_on_training(source: Source, node: ast.expr) -> bool:
    """Say whether something in the file may switch this value with the training mode."""
    made_of = everything_before(source, node)
    if any(_MODE.search(ast.unparse(it)) for it in made_of):
        return True
    attributes = [it for value in made_of for it in ast.walk(value) if is_self_attribute(it)]
    if any(_set_by_mode(source, it) for it in attributes):
        return True
    return any(_gated(source, it) for it in made_of)


def _gated(source: Source, node: ast.AST) -> bool:
    """Say whether a branch around a node, or one above it that leaves, asks for the mode."""
    statement = source.statement(node)
    while statement in source.parent:
        above = source.parent[statement]
        if isinstance(above, (ast.If, ast.IfExp)) and _asks(source, above.test):
            return True
        for block in (getattr(above, name, None) for name in ("body", "orelse")):
            if isinstance(block, list) and statement in block:
                earlier = block[: block.index(statement)]
                if any(_leaves_by_mode(it) for it in earlier):
                    return True
        if isinstance(above, Function):
            return False
        statement = above
    return False


def _asks(source: Source, test: ast.expr) -> bool:
    """Say whether a condition asks for the mode, or holds only where nothing is dropped."""
    asked = [test]
    for it in ast.walk(test):
        if is_self_attribute(it):
            asked += source.attribute_values(source.owner(it), it.attr)
    return any(_MODE.search(ast.unparse(it)) or _NO_RATE.search(ast.unparse(it)) for it in asked)


def _leaves_by_mode(statement: ast.AST) -> bool:
    return (
        isinstance(statement, ast.If)
        and leaves(statement.body)
        and bool(_MODE.search(ast.unparse(statement.test)))
    )


def _set_by_mode(source: Source, attribute: ast.Attribute) -> bool:
    """Say whether an attribute is a property that asks for the mode, or is set in ``train()``, ``eval()``."""
    owner = source.owner(attribute)
    found = source.method(owner, attribute.attr)
    if found is not None and _MODE.search(ast.unparse(found)):
        return True
    values = source.attribute_values(owner, attribute.attr)
    setters = [source.function(value) for value in values]
    return any(_MODE.search(ast.unparse(value)) for value in values) or any(
        it is not None and it.name in {"train", "eval"} for it in setters
    )
