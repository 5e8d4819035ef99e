"""A mask per sample meets the heads in the wrong order: samples get each other's masks.

Missed because: `repeat` and `repeat_interleave` give the same shape, and a (B, T, T) mask broadcasts against
(B, H, T, T) without complaint when B == H.

Training: which padding a head sees depends on its number; samples of one batch get each other's masks.

Ask: with 2 samples and 3 heads folded into one axis of 6, to which sample does entry 1 belong?

Fix: repeat each sample's mask for its own heads: `mask.repeat_interleave(num_heads, dim=0)`, or add `mask[:,
None]`.

Seen in: https://github.com/line/lighthouse/pull/77, https://github.com/ArrowLuo/CLIP4Clip/issues/22,
https://github.com/reczoo/FuxiCTR/issues/130, https://github.com/lucidrains/graph-transformer-pytorch/pull/2,
https://github.com/lucidrains/vit-pytorch/issues/71
"""

from torch import Tensor

from softlookup.attention import hide as hide_all
from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("spread", "visible", "mask scores", "hide")
VARIANTS = ("tiled over heads", "batch axis lands on heads")


def _mixed(mask: Tensor | None, case: Case, variant: str) -> Tensor | None:
    if mask is None or mask.dim() < 4:
        return mask
    if variant == "batch axis lands on heads":  # right shapes only when B == H
        return mask[:, :1].transpose(0, 1)
    by_head = mask.expand(case.q.shape[0], case.q.shape[1], *mask.shape[2:]).transpose(0, 1)  # [H, B, ...]
    return by_head.reshape(case.q.shape[0], case.q.shape[1], *mask.shape[2:])


def visible(case: Case, variant: str) -> Tensor | None:
    bias = _mixed(case.additive_bias, case, variant)
    return all_rules(case.but(allowed_mask=_mixed(case.allowed_mask, case, variant), additive_bias=bias))


def hide(scores: Tensor, allowed: Tensor | None, case: Case, variant: str) -> Tensor:
    return hide_all(scores, allowed, case.but(additive_bias=_mixed(case.additive_bias, case, variant)))
