"""The axes of a tensor by name: ``(B, H, T, d)`` after ``.view(B, T, H, d).transpose(1, 2)``.

An axis is the text of its size, None where nothing tells; a tensor whose number of axes is unknown is None.
"""

from __future__ import annotations

import ast
import re

from softlookup.lint.source import Source, argument, is_self_attribute, number
from softlookup.lint.unpacked_shapes import unpacked
from softlookup.lint.values import Binding, reaching

Axes = tuple[str | None, ...]
_FAR = 14
_VIEWS = {"view", "reshape"}
_SAME = re.compile(
    "contiguous|float|half|bfloat16|double|to|type|type_as|clone|detach|softmax|log_softmax|relu|"
    "gelu|tanh|sigmoid|exp|masked_fill|masked_fill_|dropout|cuda|cpu|clamp|normalize|softmax_|mul|"
    "div|add|sub|mul_|div_|add_|sub_|tril|triu|requires_grad_|nan_to_num"
)
_FUNCTIONS = {
    "softmax",
    "log_softmax",
    "dropout",
    "relu",
    "gelu",
    "tanh",
    "sigmoid",
    "normalize",
    "masked_fill",
    "exp",
}
_KEEP_ALL = ("Dropout", "LayerNorm", "RMSNorm", "Softmax", "Identity", "ReLU", "GELU", "SiLU")
#: What leaves the axes of scores as they are, though nothing tells its own: a number, a mask, a bias.
_BROADCAST = re.compile(r"^[\d.e-]+$|\*\* ?-?0\.5|sqrt\(|scale|scaling|temperature|mask|bias")
_ATTENDS = {"scaled_dot_product_attention"}


def axes_of(source: Source, node: ast.expr, left: int = _FAR) -> Axes | None:
    """Return the axes of the tensor that an expression makes, None when their number is unknown."""
    if left <= 0:
        return None
    if isinstance(node, ast.Name):
        return _of_name(source, node, left - 1)
    if isinstance(node, ast.Call):
        return _of_call(source, node, left - 1)
    if isinstance(node, ast.BinOp):
        one, other = axes_of(source, node.left, left - 1), axes_of(source, node.right, left - 1)
        if isinstance(node.op, ast.MatMult):
            return _product(one, other)
        if one is not None and other is not None:
            return max(one, other, key=len)
        return one if one is not None and _BROADCAST.search(ast.unparse(node.right)) else None
    if isinstance(node, ast.Subscript):
        return _of_subscript(axes_of(source, node.value, left - 1), node.slice)
    if isinstance(node, ast.Attribute) and node.attr in {"mT", "T"}:
        inner = axes_of(source, node.value, left - 1)
        if inner is None or len(inner) < 2:
            return None
        return inner[::-1] if node.attr == "T" else (*inner[:-2], inner[-1], inner[-2])
    return None


def size(source: Source, node: ast.expr) -> str | None:
    """Return the text of a size, ``x.size(0)`` written as ``x.shape[0]``; None for -1."""
    if number(node) == -1:
        return None
    if (
        isinstance(node, ast.Call)
        and source.called(node) == "size"
        and isinstance(node.func, ast.Attribute)
        and node.args
    ):
        return f"{ast.unparse(node.func.value)}.shape[{ast.unparse(node.args[0])}]"
    return ast.unparse(node)


def view_sizes(call: ast.Call) -> list[ast.expr] | None:
    """Return the sizes that ``x.view(...)`` is given; None when they are not written one by one."""
    given = call.args
    if len(given) == 1 and isinstance(given[0], (ast.Tuple, ast.List)):
        given = given[0].elts
    if not given or any(isinstance(it, ast.Starred) for it in given):
        return None
    if any(isinstance(it, (ast.Tuple, ast.List)) for whole in given for it in ast.walk(whole)):
        return None  # sums of shapes
    if len(given) == 1 and not (number(given[0]) is not None or isinstance(given[0], ast.BinOp)):
        return None  # one name may be a whole shape
    return list(given)


def order_of(call: ast.Call, rank: int) -> list[int] | None:
    """Return the order of axes after ``transpose(i, j)`` or ``permute(...)``, counted from the left."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    given = call.args
    if len(given) == 1 and isinstance(given[0], (ast.Tuple, ast.List)):
        given = given[0].elts
    numbers = [number(it) for it in given]
    dims = [int(it) % rank for it in numbers if it is not None and -rank <= it < rank]
    if len(dims) != len(given):
        return None
    if name in {"transpose", "swapaxes"} and len(dims) == 2:
        order = list(range(rank))
        order[dims[0]], order[dims[1]] = dims[1], dims[0]
        return order
    if name == "permute" and sorted(dims) == list(range(rank)):
        return dims
    return None


def _of_name(source: Source, node: ast.Name, left: int) -> Axes | None:
    bindings = reaching(source, node)
    if shape := unpacked(source, node, bindings):
        return shape
    known = [_of_binding(source, it, left) for it in bindings]
    if not known or any(it is None for it in known) or len({len(it) for it in known if it is not None}) != 1:
        return None
    columns = zip(*(it for it in known if it is not None), strict=True)
    return tuple(column[0] if len(set(column)) == 1 else None for column in columns)


def _of_binding(source: Source, binding: Binding, left: int) -> Axes | None:
    value = binding.value
    if value is None or binding.parameter:
        return None
    if binding.position is None:
        return axes_of(source, value, left)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        inner = axes_of(source, value.func.value, left)
        dim = argument(value, "dim", 0 if value.func.attr == "unbind" else 1)
        where = number(dim) if dim is not None else 0
        if inner is None or where is None or not -len(inner) <= where < len(inner):
            return None
        cut = int(where) % len(inner)
        if value.func.attr == "unbind":
            return inner[:cut] + inner[cut + 1 :]
        if value.func.attr in {"chunk", "split", "tensor_split"}:
            return (*inner[:cut], None, *inner[cut + 1 :])
        return None
    inner = axes_of(source, value, left)
    return inner[1:] if inner and isinstance(value, (ast.Name, ast.Subscript)) else None


def _of_call(source: Source, call: ast.Call, left: int) -> Axes | None:
    name = source.called(call)
    if is_self_attribute(call.func):
        return _of_submodule(source, call, left)
    if name in _ATTENDS and len(call.args) >= 3:
        q, v = axes_of(source, call.args[0], left), axes_of(source, call.args[2], left)
        return None if q is None else (*q[:-1], v[-1] if v else None)
    if name in {"matmul", "bmm"}:
        operands = call.args if len(call.args) == 2 else [*_receiver(source, call), *call.args]
        return _product(*(axes_of(source, it, left) for it in operands)) if len(operands) == 2 else None
    if name in {"rearrange", "repeat", "einsum"}:
        return _of_pattern(source, call, left)
    receiver = _receiver(source, call) or (call.args[:1] if name in _FUNCTIONS else [])
    if not receiver:
        return None
    if name in _VIEWS:
        sizes = view_sizes(call)
        return None if sizes is None else tuple(size(source, it) for it in sizes)
    inner = axes_of(source, receiver[0], left)
    if inner is None:
        return None
    if name in {"transpose", "permute", "swapaxes"}:
        order = order_of(call, len(inner))
        return None if order is None else tuple(inner[it] for it in order)
    if name == "unsqueeze" and call.args and (where := number(call.args[0])) is not None:
        cut = int(where) % (len(inner) + 1)
        return (*inner[:cut], "1", *inner[cut:])
    return inner if _SAME.fullmatch(name) else None


def _receiver(source: Source, call: ast.Call) -> list[ast.expr]:
    """Return x of ``x.method(...)``, nothing for ``torch.function(...)``."""
    if not isinstance(call.func, ast.Attribute):
        return []
    head = source.dotted(call.func.value).split(".")[0]
    return [] if head in {"torch", "F", "nn", "einops", "math", "np", "numpy"} else [call.func.value]


def _of_submodule(source: Source, call: ast.Call, left: int) -> Axes | None:
    kinds = source.submodule_kinds(call)
    inner = axes_of(source, call.args[0], left) if call.args and kinds else None
    if inner is None:
        return None
    if all(kind.endswith("Linear") for kind in kinds):
        return (*inner[:-1], None)
    return inner if all(kind.endswith(_KEEP_ALL) for kind in kinds) else None


def _of_pattern(source: Source, call: ast.Call, left: int) -> Axes | None:
    """Return the axes after ``->`` in an einops pattern or an einsum equation."""
    texts = [it.value for it in call.args[:2] if isinstance(it, ast.Constant) and isinstance(it.value, str)]
    if len(texts) != 1 or "->" not in texts[0]:
        return None
    after = texts[0].partition("->")[2].strip()
    if "..." in after:
        return None
    if source.called(call) == "einsum" and " " not in after:
        return tuple(after)
    return tuple("*".join(it.strip("()").split()) for it in re.findall(r"\([^)]*\)|\S+", after))


def _product(one: Axes | None = None, other: Axes | None = None) -> Axes | None:
    if one is None or other is None or len(one) < 2 or len(other) < 2:
        return None
    return (
        (*one[:-1], other[-1])
        if len(one) >= len(other)
        else (*other[: len(other) - len(one)], *one[:-1], other[-1])
    )


def _of_subscript(inner: Axes | None, index: ast.expr) -> Axes | None:
    if inner is None:
        return None
    rest = list(inner)
    found: list[str | None] = []
    for part in index.elts if isinstance(index, ast.Tuple) else [index]:
        if isinstance(part, ast.Constant) and part.value is None:
            found.append("1")
        elif isinstance(part, ast.Slice) and rest:
            whole = part.lower is None and part.upper is None
            found.append(rest.pop(0) if whole else (rest.pop(0), None)[1])
        elif number(part) is not None and rest:
            rest.pop(0)
        else:
            return None
    return (*found, *rest)
