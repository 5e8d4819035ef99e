"""flex_attention of PyTorch.

    block_mask: BlockMask

In its words: mask_mod(b, h, q_idx, kv_idx) is True where the query may look at the key; create_block_mask
makes a BlockMask of it, for which a kernel skips hidden blocks and asks mask_mod inside those that are shown
in part. score_mod(score, b, h, q_idx, kv_idx) returns the score to use, and hides with -inf. A BlockMask is
for exactly its lengths; a batch or heads of 1 answer for all. Beyond its words: uncompiled, as here, only
mask_mod is asked and the blocks are not looked at, so a BlockMask whose blocks hide more than its mask_mod
(as from_kv_blocks makes it without one) shows everything; and a query without any key gets zeros.

Lost when written: nothing. A rule stays a rule: neither form holds a dense mask.

Lost when read: what score_mod does to visible scores, and blocks that say something else than mask_mod.
"""

from __future__ import annotations

from torch import Tensor

from softlookup.conventions.flex_positions import (
    ask_everywhere,
    hidden_by_score_mod,
    needed_sizes,
    read_block_mask,
)
from softlookup.conventions.spelling import Arguments, Reading, Sizes, Spelling, Takes, take_known
from softlookup.conventions.tensors import everything, given
from softlookup.fused.flex import block_mask_of, mask_mod_of
from softlookup.masks import AllOf, Mask
from softlookup.terms import SoftlookupError

NAME = "flex_attention"
ALSO = ("flex", "FlexAttention", "torch.nn.attention.flex_attention")
WORDS = "torch 2.13.0"
CALL = "flex_attention(q, k, v, {})"
TAKES = (Takes("block_mask", "allowed", "bool", ()),)  # a BlockMask: no tensor of any shape


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``block_mask``, or the ``mask_mod`` that it is made of, and ``score_mod``."""
    found = take_known(arguments, ("block_mask", "mask_mod", "score_mod"), NAME)
    block_mask, mask_mod, score_mod = found["block_mask"], found["mask_mod"], found["score_mod"]
    if callable(block_mask) and mask_mod is None:
        block_mask, mask_mod = None, block_mask
    if block_mask is not None and mask_mod is not None:
        raise SoftlookupError(
            f"{NAME}: a mask_mod is part of a BlockMask.", expected="block_mask or mask_mod", got="both"
        )
    if block_mask is not None:
        readings = [read_block_mask(block_mask, sizes, NAME)]
    elif mask_mod is not None:
        readings = [Reading(given(ask_everywhere(mask_mod, needed_sizes(mask_mod, sizes, NAME), NAME)))]
    else:
        readings = []
    if score_mod is not None:
        allowed, lost = hidden_by_score_mod(score_mod, sizes, NAME)
        readings.append(Reading(given(allowed), lost))
    masks = [reading.mask for reading in readings] or [everything()]
    lost = tuple(words for reading in readings for words in reading.lost)
    return Reading(AllOf.of(*masks) if len(masks) > 1 else masks[0], lost)


def as_block_mask(mask: Mask, sizes: Sizes) -> Spelling:
    """A BlockMask, for which the kernel skips what is hidden."""
    lengths = sizes.of("q_len", "a BlockMask"), sizes.of("k_len", "a BlockMask")
    return Spelling({"block_mask": block_mask_of(mask, *lengths)})


def as_mask_mod(mask: Mask, sizes: Sizes) -> Spelling:
    """The function that create_block_mask takes."""
    lengths = sizes.of("q_len", "a mask_mod"), sizes.of("k_len", "a mask_mod")
    return Spelling({"mask_mod": mask_mod_of(mask, *lengths)})


FORMS = {"block_mask": as_block_mask, "mask_mod": as_mask_mod}


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Call it uncompiled, which needs no compiler and is right for every head size."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    batch_size, num_heads, q_len, _ = q.shape
    asked = dict(arguments)
    if "mask_mod" in asked:
        mask_mod = asked.pop("mask_mod")
        asked["block_mask"] = create_block_mask(
            mask_mod, batch_size, num_heads, q_len, k.shape[2], device=q.device
        )
    output: Tensor = flex_attention(q, k, v, **asked)
    return output
