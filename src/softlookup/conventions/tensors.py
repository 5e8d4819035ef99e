"""Tensors of visibility: theirs as a mask without a copy, a mask as the smallest one, and additive ones."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor

from softlookup.conventions.spelling import Arguments, Reading, Sizes
from softlookup.masks import Given, Mask
from softlookup.terms import SoftlookupError

#: A number at or below this, added to a score, hides the key: BERT's -10000, also rounded to bfloat16, and
#: every dtype's smallest number. What lies above it and is not 0 is a bias.
HIDES = -9_000.0

_AT_ONCE = 1 << 22  # entries of a float tensor that are looked at together


def as_tensor(array: Any, whose: str) -> Tensor:
    """Return a tensor or an array of NumPy, JAX and the like as a tensor that shares its memory where it can.

    Raises: SoftlookupError for anything else.
    """
    if isinstance(array, Tensor):
        return array.detach()
    if hasattr(array, "__array__") or isinstance(array, (list, tuple)):
        try:
            import numpy
        except ImportError:
            if isinstance(array, (list, tuple)):
                return torch.tensor(array)
        else:
            with contextlib.suppress(Exception):  # a ragged list, or a symbol that has no numbers yet
                array = numpy.asarray(array)
            if isinstance(array, numpy.ndarray) and _has_numbers(array.dtype):
                return _sharing_memory(array)
    raise SoftlookupError(
        f"{whose}: this is no mask.",
        expected="a tensor or an array of bool, integers or floats",
        got=f"{type(array).__name__}" + (f" of {array.dtype}" if hasattr(array, "dtype") else ""),
    )


def as_array(tensor: Tensor) -> Any:
    """Return a tensor as a NumPy array, which JAX, flax, Keras and ONNX take; it shares the memory.

    Raises: SoftlookupError when NumPy is not installed.
    """
    try:
        import numpy  # noqa: F401  (Tensor.numpy() fails without it in words that do not help)
    except ImportError:
        raise SoftlookupError(
            "convert: this convention takes arrays.",
            expected="NumPy",
            got="not installed",
            hint="pip install numpy",
        ) from None
    return tensor.cpu().numpy()


def everything() -> Mask:
    """Return the mask that hides nothing."""
    return Given(torch.ones(1, 1, 1, 1, dtype=torch.bool))


def shows_all(mask: Mask) -> bool:
    """Say whether this is ``everything``: a tensor of one entry that is True."""
    return isinstance(mask, Given) and not mask.axes and bool(mask.allowed_mask)


def both(mask: Mask, other: Mask) -> Mask:
    """Return what two masks show; the second one is left out where it hides nothing."""
    return mask if shows_all(other) else mask & other


def dtype_kind(tensor: Tensor) -> Literal["bool", "int", "float"]:
    """Return what kind of numbers a tensor has."""
    return "bool" if tensor.dtype == torch.bool else "float" if tensor.dtype.is_floating_point else "int"


def arrays_in(arguments: Arguments) -> dict[str, Any]:
    """Return arguments with NumPy arrays in the place of tensors."""
    return {name: it.numpy() if isinstance(it, Tensor) else it for name, it in arguments.items()}


def given(allowed: Tensor) -> Mask:
    """Return bool [T_q, T_k], [H, T_q, T_k] or [B, H, T_q, T_k] as a mask that shares its memory.

    It is for masks that are read and written at once; ``Mask.from_tensor`` makes one that may be kept.
    """
    return Given(allowed[(None,) * (4 - allowed.dim())])


def dense_of(mask: Mask, sizes: Sizes) -> Tensor:
    """Return bool [B or 1, H or 1, T_q or 1, T_k or 1]: an axis that the mask does not depend on is 1.

    It may share memory with the mask: clone it before writing into it.
    """
    if isinstance(mask, Given):
        return mask.allowed_mask
    q_len = sizes.of("q_len", "a mask of this kind") if "T_q" in mask.axes else 1
    return mask.dense(q_len, sizes.of("k_len", "a mask of this kind"))


def full_of(mask: Mask, sizes: Sizes) -> Tensor:
    """Return bool [B or 1, H or 1, T_q, T_k]: queries and keys in full, as views where they repeat."""
    dense = dense_of(mask, sizes)
    return dense.expand(-1, -1, sizes.of("q_len", "a dense mask"), sizes.of("k_len", "a dense mask"))


def to_additive(allowed: Tensor, dtype: torch.dtype = torch.float32, fill: float = -math.inf) -> Tensor:
    """Return 0 where a key may be looked at and ``fill`` where not."""
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill_(~allowed, fill)


def from_additive(bias: Tensor, whose: str) -> tuple[Tensor, tuple[str, ...]]:
    """Return what numbers that are added to the scores leave visible, and in words what else they say.

    bias: float, any shape, of which no float copy is made

    Raises: SoftlookupError when a number is nan or +inf.
    """
    allowed = bias > HIDES
    least, most = 0.0, 0.0
    for piece in _pieces(bias):
        if not bool((piece < math.inf).all()):  # also false for nan
            raise SoftlookupError(
                f"{whose}: a number that is added to scores is nan or +inf.",
                expected="0 to see, a large negative number or -inf to hide",
                got=f"{bias.dtype} {list(bias.shape)} with nan or +inf",
            )
        visible = piece[piece > HIDES]
        if visible.numel():
            least, most = min(least, float(visible.min())), max(most, float(visible.max()))
    if least == most == 0.0:
        return allowed, ()
    return allowed, (
        f"the bias on visible keys, {least:.4g} to {most:.4g}: it changes weights and hides nothing"
        + (" (are these 0/1 flags? added to scores they hide nothing)" if _only_0_and_1(bias) else ""),
    )


def read_bool_or_additive(tensor: Tensor, whose: str) -> Reading:
    """Return the reading of a tensor of four axes or fewer: bool, True = may look, or added to the scores.

    Raises: SoftlookupError for integers, and for numbers that are nan or +inf.
    """
    if tensor.dtype == torch.bool:
        return Reading(given(tensor))
    if not tensor.dtype.is_floating_point:
        raise SoftlookupError(
            f"{whose}: an integer mask does not say what its numbers mean.",
            expected="bool (True = may look) or float (added to the scores)",
            got=f"{tensor.dtype} {list(tensor.shape)}".removeprefix("torch."),
            hint="source='1 = keep' or source='1 = hide'",
        )
    allowed, lost = from_additive(tensor, whose)
    return Reading(given(allowed), lost)


def _has_numbers(dtype: Any) -> bool:
    return dtype.name == "bfloat16" or (dtype.kind in "biuf" and dtype.itemsize <= 8)


def _sharing_memory(array: Any) -> Tensor:
    """Return a NumPy array as a tensor; bfloat16, which JAX adds to NumPy's dtypes, by its bits."""
    import numpy

    of_jax = array.dtype.name == "bfloat16"
    bits = array.view(numpy.int16) if of_jax else array
    tensor = torch.from_numpy(numpy.ascontiguousarray(bits if bits.flags.writeable else bits.copy()))
    return tensor.view(torch.bfloat16) if of_jax else tensor


def _pieces(bias: Tensor) -> Iterator[Tensor]:
    flat = bias.reshape(-1)
    return (flat[start : start + _AT_ONCE] for start in range(0, len(flat), _AT_ONCE))


def _only_0_and_1(bias: Tensor) -> bool:
    return all(bool(((piece == 0) | (piece == 1)).all()) for piece in _pieces(bias))


def as_words(bools: Tensor) -> Tensor | None:
    """Return bool [..., n * 8] as int64 [..., n], sharing memory; None where it does not lie that way."""
    steps = (*bools.stride()[:-1], bools.storage_offset(), bools.shape[-1])
    if bools.stride(-1) != 1 or not bools.shape[-1] or any(step % 8 for step in steps):
        return None
    return bools.view(torch.int64)
