"""`~` on an integer mask: `~1` is -2 and `~0` is -1, and both are true.

Missed because: on a bool tensor the same sign negates, and nothing raises.

Fix: `mask == 0`, or `~mask.bool()`.

Seen in: https://github.com/pytorch/pytorch/issues/24180, https://github.com/deepspeedai/DeepSpeed/issues/3319
"""

import ast
import re
from collections.abc import Iterator

from softlookup.lint.hit import Hit, shown
from softlookup.lint.source import Source
from softlookup.lint.values import reaching, written

WORTH = re.compile(r"~")
_CASTS = {"long", "int", "byte", "short"}
_INTEGER = re.compile(
    r"torch\.(long|int|int8|int16|int32|int64|uint8|short)\b|torch\.(Long|Byte|Int)Tensor|^int$|'torch\.LongTensor'"
)
_KEEPS = {
    "unsqueeze",
    "squeeze",
    "view",
    "reshape",
    "expand",
    "repeat",
    "contiguous",
    "clone",
    "detach",
    "cuda",
    "cpu",
}
_MAKERS = {"ones", "zeros", "ones_like", "zeros_like", "full", "full_like", "tensor", "as_tensor", "arange"}


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    for node in source.of_kind(ast.UnaryOp):
        if not isinstance(node.op, ast.Invert) or "torch" not in source.text:
            continue
        values = written(source, node.operand)
        whys = [_integer(source, it) for it in values or []] or [_annotated(source, node.operand)]
        if whys and all(whys):
            yield Hit(
                node,
                f"`{shown(node)}` negates bits, not truth: the mask holds integers ({whys[0]})",
                f"{shown(node.operand)} == 0",
            )


def _annotated(source: Source, node: ast.expr) -> str | None:
    """Return the annotation of a parameter that says it holds integers."""
    bindings = reaching(source, node) if isinstance(node, ast.Name) else []
    function = source.function(node)
    if len(bindings) != 1 or not bindings[0].parameter or function is None:
        return None
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    noted = [ast.unparse(it.annotation) for it in given if it.arg == ast.unparse(node) and it.annotation]
    return next((f"`{it}`" for it in noted if re.search(r"\b(Byte|Long|Int|Short)Tensor$", it)), None)


def _integer(source: Source, node: ast.expr) -> str | None:
    """Return the text that makes this an integer tensor."""
    index = node.slice if isinstance(node, ast.Subscript) else None
    of_batch = isinstance(index, ast.Constant) and index.value == "attention_mask"
    if isinstance(node, (ast.Subscript, ast.Attribute)) and (
        of_batch or getattr(node, "attr", "") == "attention_mask"
    ):
        made = written(source, node.value)
        calls = [
            it for it in made or [] if isinstance(it, ast.Call) and "token" in ast.unparse(it.func).lower()
        ]
        return "a tokenizer's attention_mask" if made and len(calls) == len(made) else None
    if not isinstance(node, ast.Call):
        return None
    name = source.called(node)
    if name in _CASTS and isinstance(node.func, ast.Attribute) and not node.args:
        return f"`.{name}()`"
    words = [ast.unparse(it) for it in [*node.args, *(it.value for it in node.keywords if it.arg == "dtype")]]
    if name in {"to", "type"} or name in _MAKERS:
        return next((f"`{it}`" for it in words if _INTEGER.search(it)), None)
    if name in _KEEPS and isinstance(node.func, ast.Attribute):
        values = written(source, node.func.value)
        whys = [_integer(source, it) for it in values or []]
        return whys[0] if whys and all(whys) else None
    return None
