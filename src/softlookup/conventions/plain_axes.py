"""The axes of a mask that belongs to no library: two to four, the first of three decided by the sizes."""

from __future__ import annotations

import torch
from torch import Tensor

from softlookup.conventions.spelling import Sizes, refuse_shape
from softlookup.conventions.tensors import given
from softlookup.masks import Mask
from softlookup.terms import SoftlookupError

#: The shapes that a mask of no library has.
SHAPES = ("T_q T_k", "H T_q T_k", "B T_q T_k", "B H T_q T_k")

_AXES = "two to four axes: [T_q, T_k], [H, T_q, T_k], [B, T_q, T_k] or [B, H, T_q, T_k]"


def mask_of(allowed: Tensor, sizes: Sizes, argument: str) -> Mask:
    """Return a tensor as a mask that shares its memory.

    allowed: bool of ``SHAPES``, any axis may be 1, True = may look
    argument: whose shape it is, for a refusal

    Raises: SoftlookupError for another number of axes, and where three of them can mean two things.
    """
    if not 2 <= allowed.dim() <= 4:
        raise refuse_shape(allowed, argument, "it", _AXES)
    if allowed.dim() == 3 and not _first_is_heads(allowed, sizes, argument):
        allowed = allowed[:, None]  # [B, T_q, T_k] -> [B, 1, T_q, T_k]
    return given(allowed)


def true_or_false(tensor: Tensor, argument: str) -> Tensor:
    """Return a bool tensor as it is.

    Raises: SoftlookupError for numbers, which do not say which of them shows a key.
    """
    if tensor.dtype == torch.bool:
        return tensor
    floating = tensor.dtype.is_floating_point
    raise SoftlookupError(
        f"{argument}: numbers do not say whether they show or hide.",
        expected="bool",
        got=f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}",
        hint="source='1 = keep' or '1 = hide'"
        + ", or 'additive_bias' for numbers added to scores" * floating,
    )


def ones_of(flags: Tensor, argument: str) -> Tensor:
    """Return where flags are 1, as bool of their shape.

    Raises: SoftlookupError when one is neither 0 nor 1.
    """
    if flags.dtype == torch.bool:
        return flags
    ones = flags == 1
    others = flags[~(ones | (flags == 0))]
    if others.numel():
        found = others.unique()  # type: ignore[no-untyped-call]
        values = ", ".join(f"{value:g}" for value in found[:4].tolist()) + ", ..." * (len(found) > 4)
        raise SoftlookupError(
            f"{argument}: flags are 0 or 1.",
            expected="0 and 1, and nothing else",
            got=f"{str(flags.dtype).removeprefix('torch.')} {list(flags.shape)} that also has {values}",
            hint="source='additive_bias' for numbers that are added to the scores"
            if flags.dtype.is_floating_point
            else "",
        )
    return ones


def _first_is_heads(allowed: Tensor, sizes: Sizes, argument: str) -> bool:
    """Say whether the first of three axes is heads: a size says so, or the other one cannot be meant."""
    first = allowed.shape[0]
    said = {"num_heads": sizes.num_heads, "batch_size": sizes.batch_size}
    meant = [name for name, size in said.items() if size == first]
    possible = meant or [name for name, size in said.items() if size is None]
    if len(possible) == 1 or first == 1:
        return possible != ["batch_size"]
    raise SoftlookupError(
        f"{argument}: the first of three axes can be samples or heads.",
        expected=f"num_heads={first} or batch_size={first}, and the other one different or not said",
        got=f"{list(allowed.shape)}, " + ", ".join(f"{name}={size}" for name, size in said.items()),
        hint="[:, None] makes it samples, [None] makes it heads",
    )
