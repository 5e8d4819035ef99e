"""nnx.MultiHeadAttention of flax.nnx.

    is_causal=True
    mask: bool [2, 1, 1, 3], 1 = may look
    [0, 0]
    1 1 1
    [1, 0]
    1 1 .

In its words: mask is False where a key is hidden, and broadcasts to [batch..., H, T_q, T_k]. It need not be
bool: every number but 0 shows the key, as in flax.linen, and a mask of 0 and -inf shows just what it should
hide. is_causal starts at the first key and holds beside a mask; with dropout or sow_weights=True that mask
then has to have T_q and T_k in full. nnx.dot_product_attention is the same function with a bias, that is
added to the scores. A query without any key gets the mean of all values.

Lost when written: nothing.

Lost when read: a bias that is neither 0 nor hides is no visibility.
"""

from __future__ import annotations

from torch import Tensor

from softlookup.conventions.array_flags import causal_alone, four_axes, joined, seen_under, unsaid
from softlookup.conventions.parts import parts_of
from softlookup.conventions.spelling import (
    Arguments,
    Reading,
    Sizes,
    Spelling,
    Takes,
    take_known,
)
from softlookup.conventions.tensors import as_array, as_tensor, dense_of, given
from softlookup.masks import Mask, causal

NAME = "flax.nnx.MultiHeadAttention"
ALSO = ("nnx", "flax.nnx", "flax.nnx.dot_product_attention")
WORDS = "flax 0.12.8"
CALL = "nnx.MultiHeadAttention(...)(x_q, x_kv, {})"
TAKES = (
    Takes("mask", "allowed", "bool", ("T_q T_k", "B H T_q T_k"), broadcast=True),
    Takes("mask", "allowed", "int", ("T_q T_k", "B H T_q T_k"), broadcast=True),
    Takes("mask", "allowed", "float", ("T_q T_k", "B H T_q T_k"), broadcast=True),
    Takes("bias", "additive", "float", ("T_q T_k", "B H T_q T_k"), broadcast=True),
)
NEEDS = ("flax", "jax")
CAUSAL = {"is_causal": True}


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``mask``, where every number but 0 may look, ``is_causal``, and the ``bias`` of the function."""
    found = take_known(arguments, ("mask", "is_causal", "bias"), NAME)
    visible: list[Mask] = [causal()] if found["is_causal"] else []
    lost: tuple[str, ...] = ()
    if found["mask"] is not None:
        visible.append(given(four_axes(found["mask"], NAME, "mask").bool()))
    if found["bias"] is not None:
        under_bias = seen_under(found["bias"], NAME, "bias")
        visible.append(under_bias.mask)
        lost = under_bias.lost
    return Reading(joined(visible), lost)


def as_causal(mask: Mask, sizes: Sizes) -> Spelling:
    """Say it with ``is_causal``."""
    return causal_alone("is_causal", mask, sizes)


def as_causal_and_mask(mask: Mask, sizes: Sizes) -> Spelling:
    """``is_causal``, and a bool mask for what it does not say."""
    rest = unsaid(mask, {"high"}, sizes)
    if rest is mask or parts_of(mask, sizes).high != 0:
        return as_mask(mask, sizes)
    arguments = {} if rest is None else {"mask": as_array(dense_of(rest, sizes))}
    return Spelling({"is_causal": True} | arguments)


def as_mask(mask: Mask, sizes: Sizes) -> Spelling:
    """A bool array, True = may look."""
    return Spelling({"mask": as_array(dense_of(mask, sizes))})


FORMS = {"is_causal": as_causal, "is_causal and mask": as_causal_and_mask, "mask": as_mask}


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Call the layer, on the CPU, with identity projections; the function where there is a bias."""
    import jax
    from flax import nnx

    theirs = {name: it.numpy() if isinstance(it, Tensor) else it for name, it in arguments.items()}
    B, H, T_q, d_head = q.shape
    with jax.default_device(jax.devices("cpu")[0]):
        # [B, H, T, d] -> [B, T, H, d]
        inputs = [jax.numpy.asarray(it.transpose(1, 2).numpy()) for it in (q, k, v)]
        if "bias" in theirs:
            return as_tensor(nnx.dot_product_attention(*inputs, **theirs), NAME).transpose(1, 2)
        layer = nnx.MultiHeadAttention(H, H * d_head, use_bias=False, decode=False, rngs=nnx.Rngs(0))
        unchanged = jax.numpy.eye(H * d_head)
        for projection in (layer.query, layer.key, layer.value):
            projection.kernel[...] = unchanged.reshape(H * d_head, H, d_head)
        layer.out.kernel[...] = unchanged.reshape(H, d_head, H * d_head)
        output = layer(*(it.reshape(*it.shape[:2], H * d_head) for it in inputs), **theirs)
    return as_tensor(output, NAME).view(B, T_q, H, d_head).transpose(1, 2)
