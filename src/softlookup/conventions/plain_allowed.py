"""A bool tensor of no library, in which True means may look.

    allowed_mask: bool [2, 1, 3, 3], 1 = may look
    [0, 0]
    1 . .
    1 1 .
    1 1 1
    [1, 0]
    1 . .
    1 1 .
    1 1 .

In its words: True shows the key, as softlookup and F.scaled_dot_product_attention have it. Any axis may be 1.
Of three axes the first is samples or heads, whichever size was said.

Lost when written: nothing.

Lost when read: nothing.
"""

from __future__ import annotations

from softlookup.conventions.plain_axes import SHAPES, mask_of, true_or_false
from softlookup.conventions.spelling import Arguments, Reading, Sizes, Spelling, Takes, take_known
from softlookup.conventions.tensors import as_tensor, dense_of
from softlookup.masks import Mask

NAME = "allowed_mask"
ALSO = ("allowed", "True = may look")
WORDS = "softlookup"
CALL = "softlookup.scaled_dot_product_attention(q, k, v, {})"
TAKES = (Takes("allowed_mask", "allowed", "bool", SHAPES, broadcast=True),)


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``allowed_mask``."""
    allowed = as_tensor(take_known(arguments, ("allowed_mask",), NAME)["allowed_mask"], NAME)
    return Reading(mask_of(true_or_false(allowed, NAME), sizes, NAME))


def as_bool(mask: Mask, sizes: Sizes) -> Spelling:
    """A bool tensor, True = may look."""
    return Spelling({"allowed_mask": dense_of(mask, sizes)})


FORMS = {"bool": as_bool}
