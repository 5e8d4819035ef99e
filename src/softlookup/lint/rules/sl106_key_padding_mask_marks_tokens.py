"""A `key_padding_mask` is built with `!= pad`: True marks the real tokens, and they get hidden.

Missed because: for other libraries `!= pad` is right; for `nn.MultiheadAttention` True means padding.

Fix: `key_padding_mask = tokens == pad_id`.

Seen in: https://github.com/pytorch/pytorch/pull/170415, https://github.com/huggingface/transformers/pull/38094
"""

import ast
import re
from collections.abc import Iterator

from softlookup.lint.hit import Hit, shown
from softlookup.lint.mask_meaning import is_pad
from softlookup.lint.source import Source

WORTH = re.compile(r"key_padding_mask")


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    if "flash_attn" in source.text:
        return  # there, True in a key_padding_mask means keep
    for statement in source.of_kind(ast.Assign):
        target = statement.targets[0]
        if isinstance(target, ast.Name) and "key_padding_mask" in target.id and not _negated(source, target):
            yield from _judged(source, statement.value)
    for call in source.calls:
        for keyword in call.keywords:
            if keyword.arg is not None and keyword.arg.endswith("key_padding_mask"):
                yield from _judged(source, keyword.value)


def _judged(source: Source, value: ast.expr) -> Iterator[Hit]:
    compared = _differs_from_pad(source, value)
    if compared is not None:
        yield Hit(
            value,
            f"`{shown(compared)}` is True for real tokens, and a key_padding_mask hides where True",
            f"compare with ==, or negate: ~({shown(compared)})",
        )


def _differs_from_pad(source: Source, node: ast.expr) -> ast.expr | None:
    """Return ``x != pad`` or ``x.ne(pad)`` under casts and reshapes."""
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr not in {"ne", "not_equal"}
    ):
        if node.func.attr not in {"bool", "to", "unsqueeze", "squeeze", "view", "reshape", "contiguous"}:
            return None
        node = node.func.value
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotEq):
        return node if is_pad(node.comparators[0]) else None
    if (
        isinstance(node, ast.Call)
        and source.called(node) in {"ne", "not_equal"}
        and node.args
        and is_pad(node.args[-1])
    ):
        return node
    return None


def _negated(source: Source, target: ast.Name) -> bool:
    """Say whether the function negates this mask anywhere: then True was meant to mark the tokens."""
    function = source.function(target)
    for it in source.of_kind(ast.UnaryOp):
        named = isinstance(it.operand, ast.Name) and it.operand.id == target.id
        if named and isinstance(it.op, (ast.Invert, ast.Not)) and source.function(it) is function:
            return True
    for call in source.calls:
        if (
            source.called(call) == "logical_not"
            and target.id in ast.unparse(call)
            and source.function(call) is function
        ):
            return True
    return False
