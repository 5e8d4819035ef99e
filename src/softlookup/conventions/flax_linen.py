"""nn.MultiHeadDotProductAttention of flax.linen.

    mask: bool [2, 1, 3, 3], 1 = may look
    [0, 0]
    1 . .
    1 1 .
    1 1 1
    [1, 0]
    1 . .
    1 1 .
    1 1 .

In its words: mask is False where a key is hidden, and broadcasts to [batch..., H, T_q, T_k]. It need not be
bool: make_causal_mask, make_attention_mask and combine_masks return float32, 1 = may look. Every number but 0
shows the key, so a mask of 0 and -inf, which is meant to be added, shows just what it should hide. There is
no causal flag. The layer has no bias; nn.dot_product_attention has one, which is added to the scores. A query
without any key gets the mean of all values.

Lost when written: nothing.

Lost when read: a bias that is neither 0 nor hides is no visibility.
"""

from __future__ import annotations

import torch
from torch import Tensor

from softlookup.conventions.array_flags import four_axes, joined, seen_under
from softlookup.conventions.spelling import (
    Arguments,
    Reading,
    Sizes,
    Spelling,
    Takes,
    take_known,
)
from softlookup.conventions.tensors import as_array, as_tensor, dense_of, given
from softlookup.masks import Mask

NAME = "flax.linen.MultiHeadDotProductAttention"
ALSO = ("flax", "flax.linen", "flax.linen.dot_product_attention")
WORDS = "flax 0.12.8"
CALL = "nn.MultiHeadDotProductAttention(num_heads).apply(variables, x_q, x_kv, {})"
TAKES = (
    Takes("mask", "allowed", "bool", ("T_q T_k", "B H T_q T_k"), broadcast=True),
    Takes("mask", "allowed", "int", ("T_q T_k", "B H T_q T_k"), broadcast=True),
    Takes("mask", "allowed", "float", ("T_q T_k", "B H T_q T_k"), broadcast=True),
    Takes("bias", "additive", "float", ("T_q T_k", "B H T_q T_k"), broadcast=True),
)
NEEDS = ("flax", "jax")


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``mask``, in which every number but 0 may look, and the ``bias`` of the function."""
    found = take_known(arguments, ("mask", "bias"), NAME)
    visible: list[Mask] = []
    lost: tuple[str, ...] = ()
    if found["mask"] is not None:
        visible.append(given(four_axes(found["mask"], NAME, "mask").bool()))
    if found["bias"] is not None:
        under_bias = seen_under(found["bias"], NAME, "bias")
        visible.append(under_bias.mask)
        lost = under_bias.lost
    return Reading(joined(visible), lost)


def as_bool(mask: Mask, sizes: Sizes) -> Spelling:
    """A bool array, True = may look."""
    return Spelling({"mask": as_array(dense_of(mask, sizes))})


def as_float(mask: Mask, sizes: Sizes) -> Spelling:
    """A float32 array, 1 = may look, as make_causal_mask returns it."""
    return Spelling({"mask": as_array(dense_of(mask, sizes).to(torch.float32))})


FORMS = {"bool": as_bool, "float": as_float}


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Call the layer, on the CPU, with identity projections; the function where there is a bias."""
    import flax.linen as nn
    import jax

    theirs = {name: it.numpy() if isinstance(it, Tensor) else it for name, it in arguments.items()}
    B, H, T_q, d_head = q.shape
    with jax.default_device(jax.devices("cpu")[0]):
        # [B, H, T, d] -> [B, T, H, d]
        inputs = [jax.numpy.asarray(it.transpose(1, 2).numpy()) for it in (q, k, v)]
        if "bias" in theirs:
            return as_tensor(nn.dot_product_attention(*inputs, **theirs), NAME).transpose(1, 2)
        unchanged = jax.numpy.eye(H * d_head)
        into_heads = {"kernel": unchanged.reshape(H * d_head, H, d_head)}
        parameters = dict.fromkeys(("query", "key", "value"), into_heads)
        parameters["out"] = {"kernel": unchanged.reshape(H, d_head, H * d_head)}
        layer = nn.MultiHeadDotProductAttention(H, use_bias=False)
        rows = (it.reshape(*it.shape[:2], H * d_head) for it in inputs)
        output = layer.apply({"params": parameters}, *rows, **theirs)
    return as_tensor(output, NAME).view(B, T_q, H, d_head).transpose(1, 2)
