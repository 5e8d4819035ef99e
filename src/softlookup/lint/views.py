"""Views that a tensor's named axes contradict: a size that stands at a place where another axis lies."""

from __future__ import annotations

import ast
import re
from collections import Counter

from softlookup.lint.axes import Axes, size
from softlookup.lint.source import Source, number

_NAMED = re.compile(r"[A-Za-z]")
_HEADS = re.compile(r"head|\bh\b|\bH\b|\bnh\b|n_h\b", re.I)


def contradiction(source: Source, known: Axes, sizes: list[ast.expr]) -> str | None:
    """Return in words how a view of these sizes contradicts the axes, None when it may be right."""
    wanted = [size(source, it) for it in sizes]
    if len({it for it in known if it is not None}) < sum(it is not None for it in known):
        return None  # two axes of one name: nothing can be told apart
    return _out_of_place(known, wanted, sizes) or _merges_strangers(known, sizes)


def _out_of_place(known: Axes, wanted: list[str | None], sizes: list[ast.expr]) -> str | None:
    """Find a size that is an axis, while the axes before it make up more, or less, than the sizes before it.

    Axes and sizes that stand on both sides cancel. What is left on one side alone is no 1: the order differs;
    what is left on both sides may be equal, as ``L`` and ``H, W`` are.
    """
    every = Counter(factor for it in sizes for factor in _factors(it))
    for n, name in enumerate(wanted):
        if name is None or name not in known or not _NAMED.search(name) or every[name] > 1:
            continue
        where = known.index(name)
        if None in known[:where] or any(number(it) == -1 for it in sizes[:n]):
            continue
        ours = Counter(factor for it in sizes[:n] for factor in _factors(it))
        theirs = Counter(factor for it in known[:where] for factor in _factors_of_text(it or ""))
        left, right = ours - theirs, theirs - ours
        left.pop("1", None)
        right.pop("1", None)
        if n == 0 and not mentions_heads(*right):
            continue  # a batch of one may be left out
        if bool(left) != bool(right):
            return f"axis {n} becomes `{name}`, but the tensor is ({_listed(known)})"
    return None


def _merges_strangers(known: Axes, sizes: list[ast.expr]) -> str | None:
    """Find a product of two axes that are no neighbours."""
    for it in sizes:
        factors = _factors(it)
        if len(factors) == 2 and all(factor in known and _NAMED.search(factor) for factor in factors):
            one, other = sorted(known.index(factor) for factor in factors)
            if other - one > 1:
                both = " and ".join(f"`{factor}`" for factor in factors)
                return f"{both} are merged, but they are no neighbours in ({_listed(known)})"
    return None


def _factors(node: ast.expr) -> list[str]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [*_factors(node.left), *_factors(node.right)]
    return [ast.unparse(node)]


def _factors_of_text(text: str) -> list[str]:
    return _factors(ast.parse(text, mode="eval").body) if text else []


def _listed(known: Axes) -> str:
    return ", ".join(it or "?" for it in known)


def mentions_heads(*texts: str | None) -> bool:
    """Say whether one of these sizes is a number of heads."""
    return any(it is not None and _HEADS.search(it) for it in texts)
