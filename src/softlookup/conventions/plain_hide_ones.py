"""Flags of no library, in which 1 hides a key and 0 keeps it.

    hide_ones: int64 [2, 1, 3, 3], 1 = hidden
    [0, 0]
    . 1 1
    . . 1
    . . .
    [1, 0]
    . 1 1
    . . 1
    . . 1

In its words: 1 hides the key, as in scores + mask * -1e9. Integers, floats or bool; any axis may be 1. Of
three axes the first is samples or heads, whichever size was said.

Lost when written: nothing.

Lost when read: nothing; numbers that are neither 0 nor 1 are refused.
"""

from __future__ import annotations

import torch

from softlookup.conventions.plain_axes import SHAPES, mask_of, ones_of
from softlookup.conventions.spelling import Arguments, Reading, Sizes, Spelling, Takes, take_known
from softlookup.conventions.tensors import as_tensor, dense_of
from softlookup.masks import Mask

NAME = "1 = hide"
ALSO = ("hide_ones",)
WORDS = "softlookup"
CALL = "scores + hide_ones * -1e9, for {}"
TAKES = (
    Takes("hide_ones", "blocked", "int", SHAPES, broadcast=True),
    Takes("hide_ones", "blocked", "float", SHAPES, broadcast=True),
)


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``hide_ones``."""
    flags = as_tensor(take_known(arguments, ("hide_ones",), NAME)["hide_ones"], NAME)
    return Reading(mask_of(~ones_of(flags, NAME), sizes, NAME))


def as_int(mask: Mask, sizes: Sizes) -> Spelling:
    """Integers, 1 = hidden."""
    return Spelling({"hide_ones": (~dense_of(mask, sizes)).to(torch.int64)})


def as_float(mask: Mask, sizes: Sizes) -> Spelling:
    """Floats, 1 = hidden."""
    return Spelling({"hide_ones": (~dense_of(mask, sizes)).to(torch.float32)})


FORMS = {"int": as_int, "float": as_float}
