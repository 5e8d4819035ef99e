"""A float tensor of no library, which is added to the scores.

    additive_bias: float32 [2, 1, 3, 3], is added to the scores
    [0, 0]
       0 -inf -inf
       0    0 -inf
       0    0    0
    [1, 0]
       0 -inf -inf
       0    0 -inf
       0    0 -inf

In its words: 0 shows the key; -inf, or a number so low that its weight is 0, hides it. Any axis may be 1. Of
three axes the first is samples or heads, whichever size was said. A query whose keys are all hidden with -inf
has no softmax: the plain formula makes nan of it.

Lost when written: nothing.

Lost when read: what is neither 0 nor hides is a bias, and no visibility.
"""

from __future__ import annotations

from softlookup.conventions.plain_axes import SHAPES, mask_of
from softlookup.conventions.spelling import (
    Arguments,
    Reading,
    Sizes,
    Spelling,
    Takes,
    refuse_shape,
    take_known,
)
from softlookup.conventions.tensors import as_tensor, dense_of, from_additive, to_additive
from softlookup.masks import Mask

NAME = "additive_bias"
ALSO = ("additive",)
WORDS = "softlookup"
CALL = "scores + additive_bias, for {}"
TAKES = (Takes("additive_bias", "additive", "float", SHAPES, broadcast=True),)


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``additive_bias``."""
    bias = as_tensor(take_known(arguments, ("additive_bias",), NAME)["additive_bias"], NAME)
    if not bias.dtype.is_floating_point:
        raise refuse_shape(bias, NAME, "it", "floats: 0 to see, -inf or a large negative number to hide")
    allowed, lost = from_additive(bias, NAME)
    return Reading(mask_of(allowed, sizes, NAME), lost)


def as_float(mask: Mask, sizes: Sizes) -> Spelling:
    """A float32 tensor of 0 and -inf."""
    return Spelling({"additive_bias": to_additive(dense_of(mask, sizes))})


FORMS = {"float": as_float}
