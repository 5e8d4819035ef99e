"""Products of weights and values, as people write them: matmul, @, bmm, baddbmm, einsum."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

#: By function: the places and names of the two tensors that are multiplied.
_OPERANDS = {
    "matmul": ((0, "input", "self"), (1, "other", "tensor2")),
    "__matmul__": ((0, "input", "self"), (1, "other", "tensor2")),
    "__rmatmul__": ((1, "other"), (0, "self")),
    "mm": ((0, "input", "self"), (1, "mat2")),
    "bmm": ((0, "input", "self"), (1, "mat2")),
    "baddbmm": ((1, "batch1"), (2, "batch2")),
}


class ValueProduct(NamedTuple):
    """One tensor summed over an axis with another one.

    weights: the one that was asked for
    axes: its axes in the order of the result, and last the one that is summed over
    values: the other one: [..., T_k, d_v]
    outputs: the result with d_v as its last axis: [..., d_v]
    back: from there to the shape of the result
    """

    weights: Tensor
    axes: tuple[int, ...]
    values: Tensor
    outputs: Tensor
    back: Callable[[Tensor], Tensor]


def value_product(
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: Tensor,
    is_weights: Callable[[Any], bool],
) -> ValueProduct | None:
    """Return what a function of torch multiplied; None where that is not weights and one other tensor.

    name: of the function;  is_weights: says which tensors are weights
    """
    if name == "einsum":
        return _of_einsum(args, result, is_weights)
    if name not in _OPERANDS:
        return None
    first, second = (_operand(it, args, kwargs) for it in _OPERANDS[name])
    if first is None or second is None or is_weights(first) == is_weights(second):
        return None
    if is_weights(first) and second.dim() > 1:  # [..., T_q, T_k] x [..., T_k, d_v]
        return ValueProduct(first, tuple(range(first.dim())), second, result, lambda it: it)
    if is_weights(second) and first.dim() > 1 and second.dim() > 1:  # [..., d_v, T_k] x [..., T_k, T_q]
        axes = (*range(second.dim() - 2), second.dim() - 1, second.dim() - 2)
        return ValueProduct(second, axes, first.mT, result.mT, lambda it: it.mT)
    return None


def _operand(where: tuple[Any, ...], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
    place, *names = where
    found = args[place] if len(args) > place else next((kwargs[it] for it in names if it in kwargs), None)
    return found if isinstance(found, Tensor) else None


def _of_einsum(args: Sequence[Any], result: Tensor, is_weights: Callable[[Any], bool]) -> ValueProduct | None:
    """Read an equation of two operands: one letter is summed over, and one comes from the values alone."""
    operands = list(args[1]) if len(args) == 2 and isinstance(args[1], (list, tuple)) else list(args[1:])
    if not isinstance(args[0], str) or len(operands) != 2:
        return None
    if is_weights(operands[0]) == is_weights(operands[1]):
        return None
    *inputs, out = _letters(args[0], operands, result)
    if is_weights(operands[1]):
        operands.reverse()
        inputs.reverse()
    (weights, values), (of_weights, of_values) = operands, inputs
    keys = [it for it in of_weights if it in of_values and it not in out]
    widths = [it for it in of_values if it not in of_weights]
    shared = [it for it in of_weights if it in of_values and it in out]
    alone = [it for it in of_weights if it not in of_values]  # queries, and heads that share values
    if len(keys) != 1 or len(widths) != 1 or sorted(shared + alone + widths) != sorted(out):
        return None
    order = [out.index(it) for it in (*shared, *alone, *widths)]
    moved = values.permute([of_values.index(it) for it in (*shared, *keys, *widths)])
    return ValueProduct(
        weights,
        tuple(of_weights.index(it) for it in (*shared, *alone, *keys)),
        moved[(slice(None),) * len(shared) + (None,) * (len(alone) - 1)],
        result.permute(order),
        lambda it: it.permute([order.index(axis) for axis in range(len(order))]),
    )


def _letters(equation: str, operands: Sequence[Tensor], result: Tensor) -> list[str]:
    """The letters of both operands and of the result, with ``...`` spelled out."""
    left, arrow, out = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    unused = [it for it in string.ascii_letters if it not in equation]
    pairs = zip(operands, inputs, strict=True)
    dots = max(it.dim() - len(letters.replace("...", "")) for it, letters in pairs)
    if not arrow:
        once = sorted(it for it in set(left) - set(".,") if left.count(it) == 1)
        out = ("..." if dots else "") + "".join(once)
    spelled = []
    for tensor, letters in zip((*operands, result), (*inputs, out), strict=True):
        here = tensor.dim() - len(letters.replace("...", ""))
        spelled.append(letters.replace("...", "".join(unused[dots - here : dots])))
    return spelled
