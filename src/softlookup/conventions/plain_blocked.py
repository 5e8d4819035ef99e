"""A bool tensor of no library, in which True means hidden.

    blocked_mask: bool [2, 1, 3, 3], 1 = hidden
    [0, 0]
    . 1 1
    . . 1
    . . .
    [1, 0]
    . 1 1
    . . 1
    . . 1

In its words: True hides the key, as in the masks of nn.MultiheadAttention and in masked_fill(mask, -inf). Any
axis may be 1. Of three axes the first is samples or heads, whichever size was said.

Lost when written: nothing.

Lost when read: nothing.
"""

from __future__ import annotations

from softlookup.conventions.plain_axes import SHAPES, mask_of, true_or_false
from softlookup.conventions.spelling import Arguments, Reading, Sizes, Spelling, Takes, take_known
from softlookup.conventions.tensors import as_tensor, dense_of
from softlookup.masks import Mask

NAME = "blocked_mask"
ALSO = ("blocked", "True = hidden")
WORDS = "softlookup"
CALL = "scores.masked_fill(blocked_mask, -math.inf), for {}"
TAKES = (Takes("blocked_mask", "blocked", "bool", SHAPES, broadcast=True),)


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``blocked_mask``."""
    blocked = as_tensor(take_known(arguments, ("blocked_mask",), NAME)["blocked_mask"], NAME)
    return Reading(mask_of(~true_or_false(blocked, NAME), sizes, NAME))


def as_bool(mask: Mask, sizes: Sizes) -> Spelling:
    """A bool tensor, True = hidden."""
    return Spelling({"blocked_mask": ~dense_of(mask, sizes)})


FORMS = {"bool": as_bool}
