"""F.scaled_dot_product_attention of PyTorch.

    attn_mask: bool [2, 1, 3, 3], 1 = may look
    [0, 0]
    1 . .
    1 1 .
    1 1 1
    [1, 0]
    1 . .
    1 1 .
    1 1 .

In its words: a bool attn_mask is True where the key takes part in attention; a float attn_mask is added to
the score. It has any shape that broadcasts to [..., T_q, T_k]. is_causal hides what is above the diagonal
that starts at the first key, and may not be given together with a mask.

Lost when written: nothing. A query without any key gets zeros from a bool mask, whatever the kernel.

Lost when read: a float mask that is neither 0 nor hides is a bias, and no visibility.
"""

from __future__ import annotations

import torch
from torch import Tensor

from softlookup.conventions.array_flags import causal_alone
from softlookup.conventions.spelling import Arguments, Reading, Sizes, Spelling, Takes, take_known
from softlookup.conventions.tensors import as_tensor, dense_of, everything, read_bool_or_additive, to_additive
from softlookup.masks import Mask, causal
from softlookup.terms import SoftlookupError

NAME = "F.scaled_dot_product_attention"
ALSO = ("sdpa", "torch.nn.functional.scaled_dot_product_attention", "scaled_dot_product_attention")
WORDS = "torch 2.13.0"
CALL = "F.scaled_dot_product_attention(q, k, v, {})"
TAKES = (
    Takes("attn_mask", "allowed", "bool", ("T_q T_k", "B H T_q T_k"), broadcast=True),
    Takes("attn_mask", "additive", "float", ("T_q T_k", "B H T_q T_k"), broadcast=True),
)
CAUSAL = {"is_causal": True}


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``attn_mask`` and ``is_causal``."""
    found = take_known(arguments, ("attn_mask", "is_causal"), NAME)
    attn_mask, is_causal = found["attn_mask"], found["is_causal"]
    if is_causal and attn_mask is not None:
        raise SoftlookupError(
            f"{NAME}: a mask and is_causal=True exclude each other.",
            expected="attn_mask or is_causal=True",
            got="both: PyTorch raises too",
        )
    if attn_mask is not None:
        return read_bool_or_additive(as_tensor(attn_mask, NAME), NAME)
    return Reading(causal() if is_causal else everything())


def as_flag(mask: Mask, sizes: Sizes) -> Spelling:
    """Say it with ``is_causal``, for which the kernel skips what is hidden."""
    return causal_alone("is_causal", mask, sizes)


def as_bool(mask: Mask, sizes: Sizes) -> Spelling:
    """A bool tensor, True = may look."""
    return Spelling({"attn_mask": dense_of(mask, sizes)})


def as_additive(mask: Mask, sizes: Sizes) -> Spelling:
    """A float32 tensor of 0 and -inf."""
    return Spelling({"attn_mask": to_additive(dense_of(mask, sizes))})


FORMS = {"is_causal": as_flag, "bool": as_bool, "additive": as_additive}


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Call it."""
    output: Tensor = torch.nn.functional.scaled_dot_product_attention(q, k, v, **arguments)
    return output
