"""mx.fast.scaled_dot_product_attention of MLX.

    mask: bool [2, 1, 3, 3], 1 = may look
    [0, 0]
    1 . .
    1 1 .
    1 1 1
    [1, 0]
    1 . .
    1 1 .
    1 1 .

In its words: mask is the word "causal" or an array. A bool array is True where the key may be looked at; any
other one is added to the scores, and its dtype must promote to that of q, k and v: float32 does not fit
float16. It has at most four axes and broadcasts to [B, H, T_q, T_k]. "causal" aligns the last query with the
last key. Integers are not flags: they are added too, so 0 and 1 hide nothing. A query without any key gets
the mean of all values from a bool array and from "causal", and nan from -inf.

Lost when written: nothing. Arrays are written as NumPy's: mx.array(...) makes theirs.

Lost when read: an array that is added and neither 0 nor hides is a bias, and no visibility.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softlookup.conventions.parts import parts_of
from softlookup.conventions.spelling import (
    Arguments,
    Reading,
    Sizes,
    Spelling,
    Takes,
    refuse_shape,
    take_known,
)
from softlookup.conventions.tensors import (
    as_array,
    as_tensor,
    dense_of,
    everything,
    read_bool_or_additive,
    to_additive,
)
from softlookup.masks import Mask, causal
from softlookup.terms import SoftlookupError

NAME = "mlx"
ALSO = ("mx.fast.scaled_dot_product_attention", "mlx.core.fast.scaled_dot_product_attention")
WORDS = "mlx 0.32.4"
CALL = "mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, {})"
TAKES = (
    Takes("mask", "allowed", "bool", ("T_q T_k", "B H T_q T_k"), broadcast=True),
    Takes("mask", "additive", "float", ("T_q T_k", "B H T_q T_k"), broadcast=True),
)
NEEDS = ("mlx",)
CAUSAL = {"mask": "causal"}


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``mask``: nothing, a word, or an array."""
    mask = take_known(arguments, ("mask",), NAME)["mask"]
    if mask is None and "mask" in arguments:
        return Reading(everything())
    if isinstance(mask, str):
        if mask != "causal":
            raise SoftlookupError(
                f"{NAME}: there is no mask of this name.", expected="'causal' or an array", got=repr(mask)
            )
        return Reading(causal("bottom-right"))
    tensor = as_tensor(_as_float32(mask), NAME)
    if tensor.dim() > 4:
        raise refuse_shape(tensor, NAME, "mask", "at most four axes, that broadcast to [B, H, T_q, T_k]")
    return read_bool_or_additive(tensor, NAME)


def as_word(mask: Mask, sizes: Sizes) -> Spelling:
    """Say it with "causal", for which the kernel skips what is hidden."""
    parts = parts_of(mask, sizes)
    from_the_last = sizes.of("k_len", "causal") - sizes.of("q_len", "causal") if parts.high is not None else 0
    is_causal = parts.high is not None and parts.high == from_the_last
    beyond = parts.hides - ({"high"} if is_causal else set())
    lost = ("everything but the causal rule from the last key",) if beyond else ()
    return Spelling({"mask": "causal" if is_causal else None}, lost)


def as_bool(mask: Mask, sizes: Sizes) -> Spelling:
    """A bool array, True = may look."""
    return Spelling({"mask": as_array(dense_of(mask, sizes))})


def as_additive(mask: Mask, sizes: Sizes) -> Spelling:
    """A float32 array of 0 and -inf."""
    return Spelling({"mask": as_array(to_additive(dense_of(mask, sizes)))})


FORMS = {"causal": as_word, "bool": as_bool, "additive": as_additive}


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Call it."""
    import mlx.core as mx
    import numpy

    mask = arguments.get("mask")
    output = mx.fast.scaled_dot_product_attention(
        *(mx.array(it.numpy()) for it in (q, k, v)),
        scale=q.shape[-1] ** -0.5,
        mask=mask if mask is None or isinstance(mask, str) else mx.array(mask),
    )
    return torch.from_numpy(numpy.array(output))


def _as_float32(array: Any) -> Any:
    """Return their bfloat16, which NumPy does not have, as float32; anything else as it is."""
    if str(getattr(array, "dtype", "")) != "mlx.core.bfloat16":
        return array
    import mlx.core as mx

    return array.astype(mx.float32)
