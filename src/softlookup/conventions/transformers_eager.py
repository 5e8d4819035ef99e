"""attention_mask of four axes, for a model of transformers with attn_implementation="eager".

    attention_mask: float32 [2, 1, 3, 3], is added to the scores
    [0, 0]
      0 min min
      0   0 min
      0   0   0
    [1, 0]
      0 min min
      0   0 min
      0   0 min

In its words: a mask of four axes is custom, or was prepared before, and is returned as it is; what
eager_mask makes is float [B, 1, T_q, T_k], 0 where the key takes part in attention and the smallest number
of the model's dtype elsewhere. It is added to the scores. Beyond its words: any of the four axes may be 1,
and heads may differ. A bool mask is added too, as 0 and 1, and hides nothing. A query without any key gets
the mean of all values, hidden ones too, for nothing is left of its scores beside so large a number; only a
float16 mask beside float32 scores leaves them, and the query sees as if nothing were hidden. Two masks
added up, or a large negative score beside one in float16, overflow to -inf: then such a query gets NaN.

Lost when written: nothing. The numbers are those of the form's dtype, which is to be the model's.

Lost when read: a number that is neither 0 nor hides is a bias, and no visibility.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from softlookup.conventions.spelling import Arguments, Reading, Sizes, Spelling, Takes, take_known
from softlookup.conventions.tensors import from_additive, given, to_additive
from softlookup.conventions.transformers_calls import attend_by, encoder_mask
from softlookup.conventions.transformers_layers import SHAPES, for_each_sample, four_axes_of, refuse_added
from softlookup.masks import Mask

NAME = "transformers eager"
ALSO = ("transformers 4-D additive",)
WORDS = "transformers 5.24.0"
CALL = "model(input_ids, {})"
TAKES = (Takes("attention_mask", "additive", "float", SHAPES),)
NEEDS = ("transformers",)


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``attention_mask``."""
    tensor = four_axes_of(take_known(arguments, ("attention_mask",), NAME)["attention_mask"], NAME)
    if not tensor.dtype.is_floating_point:
        raise refuse_added(tensor, NAME)
    allowed, lost = from_additive(tensor, NAME)
    return Reading(given(allowed), lost)


def as_smallest(mask: Mask, sizes: Sizes, dtype: torch.dtype) -> Spelling:
    """A tensor [B, 1 or H, T_q, T_k] of 0 and the smallest number of a dtype."""
    allowed = for_each_sample(mask, sizes)
    return Spelling({"attention_mask": to_additive(allowed, dtype, torch.finfo(dtype).min)})


FORMS = {
    "float32": partial(as_smallest, dtype=torch.float32),
    "bfloat16": partial(as_smallest, dtype=torch.bfloat16),
    "float16": partial(as_smallest, dtype=torch.float16),
}


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Hand it through the model's own making of masks, and attend by Llama's ``eager``."""
    made = encoder_mask(q, k, arguments["attention_mask"], "eager")
    return attend_by("eager", (q, k, v), made)
