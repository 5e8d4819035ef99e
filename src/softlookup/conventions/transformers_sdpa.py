"""attention_mask of four axes, for a model of transformers with attn_implementation="sdpa".

    attention_mask: bool [2, 1, 3, 3], 1 = may look
    [0, 0]
    1 . .
    1 1 .
    1 1 1
    [1, 0]
    1 . .
    1 1 .
    1 1 .

In its words: a mask of four axes is custom, or was prepared before, and is returned as it is; what
sdpa_mask makes is bool [B, 1, T_q, T_k], True where the key takes part in attention. Nothing is added to
it, neither causal nor padding. A float mask is additive. Beyond its words: any of the four axes may be 1,
heads may differ, and a query without any key gets zeros from a bool mask. Without a mask causal comes from
the model, and it is what sdpa_mask returns where that is all: None is no mask of all keys.

Lost when written: nothing.

Lost when read: a float mask that is neither 0 nor hides is a bias, and no visibility.
"""

from __future__ import annotations

from torch import Tensor

from softlookup.conventions.spelling import Arguments, Reading, Sizes, Spelling, Takes, take_known
from softlookup.conventions.tensors import read_bool_or_additive
from softlookup.conventions.transformers_calls import attend_by, encoder_mask
from softlookup.conventions.transformers_layers import SHAPES, for_each_sample, four_axes_of
from softlookup.masks import Mask

NAME = "transformers sdpa"
ALSO = ("transformers 4-D bool",)
WORDS = "transformers 5.24.0"
CALL = "model(input_ids, {})"
TAKES = (
    Takes("attention_mask", "allowed", "bool", SHAPES),
    Takes("attention_mask", "additive", "float", SHAPES),
)
NEEDS = ("transformers",)


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``attention_mask``."""
    tensor = four_axes_of(take_known(arguments, ("attention_mask",), NAME)["attention_mask"], NAME)
    return read_bool_or_additive(tensor, NAME)


def as_bool(mask: Mask, sizes: Sizes) -> Spelling:
    """A bool tensor [B, 1, T_q, T_k], or [B, H, T_q, T_k] where heads differ; True = may look."""
    return Spelling({"attention_mask": for_each_sample(mask, sizes)})


FORMS = {"bool": as_bool}


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Hand it through the model's own making of masks, and attend by ``sdpa``."""
    made = encoder_mask(q, k, arguments["attention_mask"], "sdpa")
    return attend_by("sdpa", (q, k, v), made)
