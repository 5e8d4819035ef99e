"""`is_causal=True` over keys joined with a cache: the corner is top-left, so one new query sees key 0 only.

Missed because: without a cache both corners are the same, and prefill works.

Fix: `is_causal=query.shape[-2] == key.shape[-2]`, and otherwise the rows of the mask for the new queries.

Seen in: https://github.com/pytorch/pytorch/issues/103082, https://github.com/pytorch/pytorch/issues/110144,
https://github.com/pytorch/executorch/pull/21749
"""

import ast
import re
from collections.abc import Iterator

from softlookup.lint.hit import Hit, shown
from softlookup.lint.products import label
from softlookup.lint.source import Source, argument
from softlookup.lint.values import everything_before

WORTH = re.compile(r"scaled_dot_product_attention")
_CACHE = re.compile(r"past|cache|prev|memor|\bkv\b", re.I)
_LENGTHS = re.compile(
    r"shape|size\(|len|seq|past|cache|prefill|decod|\bT\b|\bt\b|first|mask|step|start|pos|prev|mem"
)


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    for call in source.calls:
        if source.called(call) != "scaled_dot_product_attention":
            continue
        flag, keys = argument(call, "is_causal", 5), argument(call, "key", 1)
        if flag is None or keys is None or not _always(source, flag) or _guarded(source, call):
            continue
        joined = _joined_with_cache(source, keys)
        if joined is not None and not _same(source, call):
            yield Hit(
                flag,
                f"the keys are joined with earlier ones (`{shown(joined)}`): with one new query "
                "`is_causal` hides all keys but the first",
                "is_causal=query.shape[-2] == key.shape[-2], else the mask's rows for the new queries",
            )


def _always(source: Source, flag: ast.expr) -> bool:
    """Say whether the flag is True, or switched by nothing that knows a length."""
    made_of = everything_before(source, flag)
    plain = all(isinstance(it, (ast.Constant, ast.Attribute, ast.Name)) for it in made_of)
    if not plain or any(isinstance(it, ast.Constant) and it.value is not True for it in made_of):
        return False
    return any(
        (isinstance(it, ast.Constant) and it.value is True)
        or (isinstance(it, ast.Attribute) and "causal" in it.attr)
        for it in made_of
    )


def _joined_with_cache(source: Source, keys: ast.expr) -> ast.expr | None:
    """Return the call that puts cached keys before the new ones, or keys that are called a cache."""
    if re.search(r"cache", label(keys)):
        return keys
    for value in everything_before(source, keys):
        for it in ast.walk(value):
            if not isinstance(it, ast.Call):
                continue
            joins = source.called(it) in {"cat", "concat", "concatenate"}
            updates = source.called(it) == "update" and isinstance(it.func, ast.Attribute)
            if joins and it.args and _CACHE.search(ast.unparse(it.args[0])):
                return it
            if updates and _CACHE.search(ast.unparse(it.func)):
                return it
    return None


def _guarded(source: Source, call: ast.Call) -> bool:
    """Say whether a branch around the call asks for a length, a cache or a mask."""
    around = [it for it in source.ancestors(call) if isinstance(it, (ast.If, ast.IfExp))]
    return any(_LENGTHS.search(ast.unparse(it.test)) for it in around)


def _same(source: Source, call: ast.Call) -> bool:
    """Say whether the queries are joined with a cache too: then both lengths are equal."""
    query = argument(call, "query", 0)
    return query is not None and _joined_with_cache(source, query) is not None
