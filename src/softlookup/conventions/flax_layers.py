"""What linen's and nnx's attention layers share: the meaning of mask and bias, and identity weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from softlookup.conventions.array_flags import beside_bias, four_axes
from softlookup.conventions.spelling import Arguments, Reading, Takes
from softlookup.conventions.tensors import arrays_in, as_tensor, given
from softlookup.masks import Mask

_SHAPES = ("T_q T_k", "B H T_q T_k")
TAKES = (
    Takes("mask", "allowed", "bool", _SHAPES, broadcast=True),
    Takes("mask", "allowed", "int", _SHAPES, broadcast=True),
    Takes("mask", "allowed", "float", _SHAPES, broadcast=True),
    Takes("bias", "additive", "float", _SHAPES, broadcast=True),
)


def read_mask_and_bias(found: dict[str, Any], flags: list[Mask], whose: str) -> Reading:
    """Return what flags, ``mask``, in which every number but 0 may look, and ``bias`` leave visible."""
    shown = [] if found["mask"] is None else [given(four_axes(found["mask"], whose, "mask").bool())]
    return beside_bias([*flags, *shown], found["bias"], whose)


def attended(
    qkv: tuple[Tensor, Tensor, Tensor],
    arguments: Arguments,
    function: Callable[..., Any],
    layer: Callable[..., Any],
) -> Tensor:
    """Call a layer on the CPU; where there is a bias the function, which alone has one.

    function: takes [B, T, H, d]
    layer: takes the kernel into heads [H*d, H, d], the one out of them [H, d, H*d], rows [B, T, H*d] and the
    arguments
    """
    import jax

    theirs = arrays_in(arguments)
    B, H, T_q, d_head = qkv[0].shape
    with jax.default_device(jax.devices("cpu")[0]):
        # [B, H, T, d] -> [B, T, H, d]
        inputs = [jax.numpy.asarray(it.transpose(1, 2).numpy()) for it in qkv]
        if "bias" in theirs:
            return as_tensor(function(*inputs, **theirs), function.__name__).transpose(1, 2)
        unchanged = jax.numpy.eye(H * d_head)
        kernels = unchanged.reshape(H * d_head, H, d_head), unchanged.reshape(H, d_head, H * d_head)
        output = layer(*kernels, [it.reshape(*it.shape[:2], H * d_head) for it in inputs], theirs)
    return as_tensor(output, function.__name__).view(B, T_q, H, d_head).transpose(1, 2)
