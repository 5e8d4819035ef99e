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

from typing import Any

from torch import Tensor

from softlookup.conventions.array_flags import causal_alone, unsaid
from softlookup.conventions.flax_layers import TAKES as TAKES
from softlookup.conventions.flax_layers import attended, read_mask_and_bias
from softlookup.conventions.parts import parts_of
from softlookup.conventions.spelling import (
    Arguments,
    Reading,
    Sizes,
    Spelling,
    take_known,
)
from softlookup.conventions.tensors import as_array, dense_of
from softlookup.masks import Mask, causal

NAME = "flax.nnx.MultiHeadAttention"
ALSO = ("nnx", "flax.nnx", "flax.nnx.dot_product_attention")
WORDS = "flax 0.12.8"
CALL = "nnx.MultiHeadAttention(...)(x_q, x_kv, {})"
NEEDS = ("flax", "jax")
CAUSAL = {"is_causal": True}


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``mask``, where every number but 0 may look, ``is_causal``, and the ``bias`` of the function."""
    found = take_known(arguments, ("mask", "is_causal", "bias"), NAME)
    return read_mask_and_bias(found, [causal()] if found["is_causal"] else [], NAME)


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
    from flax import nnx

    H, d_head = q.shape[1], q.shape[3]

    def layer(into_heads: Any, out_of_heads: Any, rows: list[Any], theirs: dict[str, Any]) -> Any:
        module = nnx.MultiHeadAttention(H, H * d_head, use_bias=False, decode=False, rngs=nnx.Rngs(0))
        for projection in (module.query, module.key, module.value):
            projection.kernel[...] = into_heads
        module.out.kernel[...] = out_of_heads
        return module(*rows, **theirs)

    return attended((q, k, v), arguments, nnx.dot_product_attention, layer)
