"""True hides where it should allow, or the reverse: each query sees exactly the keys it should not see.

Missed because: shapes and row sums are right. Libraries disagree on what True means, and one mask fits both.

Training: the model learns from padding or from the future; an inverted causal mask also leaves its last row
empty.

Ask: what does True say in the mask that comes in, and what does it say to the function that fills or hides?

Fix: negate the mask once, where it enters: `allowed_mask = ~blocked_mask`.

Seen in: https://github.com/huggingface/transformers/pull/38094,
https://github.com/rasbt/LLMs-from-scratch/issues/1061, https://github.com/pytorch/pytorch/pull/170415,
https://github.com/lucidrains/halonet-pytorch/issues/4, https://github.com/harvard-edge/cs249r_book/pull/1785
"""

import math

from torch import Tensor

from softlookup.attention import hide as hide_all
from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("turn", "mask scores", "hide", "picked", "sliced", "visible", "normalize")
VARIANTS = ("mask", "causal", "causal, self kept", "every rule")


def visible(case: Case, variant: str) -> Tensor | None:
    if variant == "mask":
        mask = None if case.allowed_mask is None else ~case.allowed_mask
        bias = case.additive_bias
        if bias is not None and (bias == -math.inf).any():
            bias = bias.new_zeros(bias.shape).masked_fill(bias != -math.inf, -math.inf)
        return all_rules(case.but(allowed_mask=mask, additive_bias=bias))
    if variant == "every rule":
        allowed = all_rules(case)
        return None if allowed is None else ~allowed
    causal = all_rules(Case(case.q, case.k, case.v, causal=case.causal))
    if causal is None:
        return all_rules(case)
    if variant == "causal, self kept":  # triu in place of tril
        corner = case.k.shape[-2] - case.q.shape[-2] if case.causal == "bottom-right" else 0
        causal = causal.tril(corner - 1)
    others = all_rules(case.but(causal=None))
    return ~causal if others is None else others & ~causal


def hide(scores: Tensor, allowed: Tensor | None, case: Case, variant: str) -> Tensor:
    bias = case.additive_bias
    if bias is not None:
        case = case.but(additive_bias=bias.masked_fill(bias == -math.inf, 0.0))
    return hide_all(scores, allowed, case)
