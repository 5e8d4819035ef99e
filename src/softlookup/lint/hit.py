"""What a lint found: the node to point at, and what to say about it."""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True)
class Hit:
    """One place: ``words`` say what is there, ``fix`` what to write instead."""

    node: ast.AST
    words: str
    fix: str


def shown(node: ast.AST, most: int = 60) -> str:
    """Return an expression as text, shortened to what fits in a sentence."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= most else text[: most - 3] + "..."
