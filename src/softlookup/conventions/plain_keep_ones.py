"""Flags of no library, in which 1 keeps a key and 0 hides it.

    keep_ones: int64 [2, 1, 3, 3], 1 = may look
    [0, 0]
    1 . .
    1 1 .
    1 1 1
    [1, 0]
    1 . .
    1 1 .
    1 1 .

In its words: 1 shows the key, as in the attention_mask of tokenizers and in masked_fill(mask == 0, -inf).
Integers, floats or bool; any axis may be 1. Of three axes the first is samples or heads, whichever size was
said. Two axes are queries and keys: what a tokenizer returns is [B, T_k], and becomes [B, 1, 1, T_k] first.

Lost when written: nothing.

Lost when read: nothing; numbers that are neither 0 nor 1 are refused.
"""

from __future__ import annotations

import torch

from softlookup.conventions.plain_axes import SHAPES, mask_of, ones_of
from softlookup.conventions.spelling import Arguments, Reading, Sizes, Spelling, Takes, take_known
from softlookup.conventions.tensors import as_tensor, dense_of
from softlookup.masks import Mask

NAME = "1 = keep"
ALSO = ("keep_ones",)
WORDS = "softlookup"
CALL = "scores.masked_fill(keep_ones == 0, -math.inf), for {}"
TAKES = (
    Takes("keep_ones", "allowed", "int", SHAPES, broadcast=True),
    Takes("keep_ones", "allowed", "float", SHAPES, broadcast=True),
)


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``keep_ones``."""
    flags = as_tensor(take_known(arguments, ("keep_ones",), NAME)["keep_ones"], NAME)
    return Reading(mask_of(ones_of(flags, NAME), sizes, NAME))


def as_int(mask: Mask, sizes: Sizes) -> Spelling:
    """Integers, 1 = may look."""
    return Spelling({"keep_ones": dense_of(mask, sizes).to(torch.int64)})


def as_float(mask: Mask, sizes: Sizes) -> Spelling:
    """Floats, 1 = may look."""
    return Spelling({"keep_ones": dense_of(mask, sizes).to(torch.float32)})


FORMS = {"int": as_int, "float": as_float}
