"""Scores are divided by the root of another size than d_head: d_model, num_heads, a length, d_v.

Missed because: any constant near the right one trains; the softmax is only too flat or too sharp.

Training: logits have the wrong variance; heads start too uniform (d_model) or saturated (num_heads).

Ask: how many products are summed up in one score?

Fix: divide by the root of the width of one head's query: `scores / math.sqrt(q.shape[-1])`.

Seen in: https://github.com/lucidrains/vit-pytorch/issues/65, https://github.com/chelsea0x3b/dfdx/issues/171,
https://github.com/omihub777/ViT-CIFAR/pull/11,
https://github.com/FareedKhan-dev/train-llm-from-scratch/pull/3,
https://github.com/jadore801120/attention-is-all-you-need-pytorch/issues/42
"""

import math

from torch import Tensor

from softlookup.terms import Case

LINE = ("scale kept", "scale")

VARIANTS = ("d_model", "num_heads", "T_q", "T_k", "d_v")


def scale(scores: Tensor, case: Case, variant: str) -> Tensor:
    if case.scale is not None:
        return scores * case.scale
    heads = case.q.shape[-3] if case.q.dim() > 2 else 1
    size: int = {
        "d_model": heads * case.q.shape[-1],
        "num_heads": heads,
        "T_q": case.q.shape[-2],
        "T_k": case.k.shape[-2],
        "d_v": case.v.shape[-1],
    }[variant]
    return scores / math.sqrt(size)
