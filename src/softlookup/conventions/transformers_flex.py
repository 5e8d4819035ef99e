"""attention_mask for a model of transformers with attn_implementation="flex_attention".

    attention_mask: BlockMask

In its words: a BlockMask is returned as it is, like a mask of four axes; flex_attention_mask makes it by
create_block_mask, for all heads alike. Any other tensor is a score mask, and is added to the scores. Beyond
its words: of a score mask only head 0 is looked at, and there must be one for every sample; a bool one is
added as 0 and 1 and hides nothing. Masks and attention are compiled; on a CPU with torch 2.13 a score mask
gave wrong outputs or crashed when compiled, so what was measured ran uncompiled. A query without any key gets
zeros.

Lost when written: nothing. A rule stays a rule: no dense mask is made.

Lost when read: the bias in a score mask, and its heads but the first.
"""

from __future__ import annotations

import torch
from torch import Tensor

from softlookup.conventions.flex_positions import read_block_mask
from softlookup.conventions.spelling import Arguments, Reading, Sizes, Spelling, Takes, take_known
from softlookup.conventions.tensors import from_additive, given
from softlookup.conventions.transformers_calls import attend_by, encoder_mask
from softlookup.conventions.transformers_layers import four_axes_of, refuse_added
from softlookup.fused.flex import block_mask_of
from softlookup.masks import Mask

NAME = "transformers flex"
ALSO = ("transformers BlockMask", "transformers flex_attention")
WORDS = "transformers 5.24.0"
CALL = "model(input_ids, {})"
TAKES = (
    Takes("attention_mask", "allowed", "bool", ()),  # a BlockMask: no tensor of any shape
    Takes("attention_mask", "additive", "float", ("B 1 T_q T_k",)),
)
NEEDS = ("transformers",)


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``attention_mask``, a BlockMask or numbers that are added to the scores."""
    attention_mask = take_known(arguments, ("attention_mask",), NAME)["attention_mask"]
    if hasattr(attention_mask, "kv_num_blocks"):
        return read_block_mask(attention_mask, sizes, NAME)
    tensor = four_axes_of(attention_mask, NAME)
    if not tensor.dtype.is_floating_point:
        raise refuse_added(tensor, NAME)
    allowed, lost = from_additive(tensor[:, :1], NAME)
    if not torch.equal(tensor, tensor[:, :1].expand_as(tensor)):
        lost += ("the heads but the first, which are not looked at",)
    return Reading(given(allowed), lost)


def as_block_mask(mask: Mask, sizes: Sizes) -> Spelling:
    """A BlockMask, for which the kernel skips what is hidden."""
    lengths = sizes.of("q_len", "a BlockMask"), sizes.of("k_len", "a BlockMask")
    return Spelling({"attention_mask": block_mask_of(mask, *lengths)})


FORMS = {"BlockMask": as_block_mask}


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Hand it through the model's own making of masks, and attend by ``flex_attention``, uncompiled."""
    made = encoder_mask(q, k, arguments["attention_mask"], "flex_attention")
    return attend_by("flex_attention", (q, k, v), made)
