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

from typing import Any

import torch
from torch import Tensor

from softlookup.conventions.flax_layers import TAKES as TAKES
from softlookup.conventions.flax_layers import attended, read_mask_and_bias
from softlookup.conventions.spelling import (
    Arguments,
    Reading,
    Sizes,
    Spelling,
    take_known,
)
from softlookup.conventions.tensors import as_array, dense_of
from softlookup.masks import Mask

NAME = "flax.linen.MultiHeadDotProductAttention"
ALSO = ("flax", "flax.linen", "flax.linen.dot_product_attention")
WORDS = "flax 0.12.8"
CALL = "nn.MultiHeadDotProductAttention(num_heads).apply(variables, x_q, x_kv, {})"
NEEDS = ("flax", "jax")


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``mask``, in which every number but 0 may look, and the ``bias`` of the function."""
    found = take_known(arguments, ("mask", "bias"), NAME)
    return read_mask_and_bias(found, [], NAME)


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

    def layer(into_heads: Any, out_of_heads: Any, rows: list[Any], theirs: dict[str, Any]) -> Any:
        parameters = {name: {"kernel": into_heads} for name in ("query", "key", "value")}
        parameters["out"] = {"kernel": out_of_heads}
        module = nn.MultiHeadDotProductAttention(q.shape[1], use_bias=False)
        return module.apply({"params": parameters}, *rows, **theirs)

    return attended((q, k, v), arguments, nn.dot_product_attention, layer)
