"""Hidden keys are taken out after the softmax: the shares that are left no longer sum to one.

Missed because: hidden keys do get weight 0, so a test for leaks passes; only the row sums show it.

Training: rows with much padding return small vectors, and the size of the output depends on the mask.

Ask: when hidden keys are taken out, who gets the share that they had taken?

Fix: mask the scores and not the weights: `scores.masked_fill(~allowed_mask, -math.inf).softmax(dim=-1)`.

Seen in: https://github.com/huggingface/pytorch-image-models/pull/2236,
https://github.com/tensorflow/tensorflow/issues/43941, https://github.com/gabrielmittag/NISQA/issues/17
"""

import math

from torch import Tensor

from softlookup.attention import hide as hide_all
from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("mask weights", "settle", "normalize")
#: What is written over the weights, and which rules come too late.
VARIANTS = ((0.0, "all"), (0.0, "mask"), (0.0, "causal"), (-math.inf, "all"), (-1e9, "all"))


def _early(case: Case, late: str) -> Case:
    bias = case.additive_bias
    finite = None if bias is None else bias.masked_fill(bias == -math.inf, 0.0)
    if late == "causal":
        return case.but(causal=None, window=None)
    case = case.but(allowed_mask=None, additive_bias=finite)
    return case.but(causal=None, window=None, document_ids=None) if late == "all" else case


def hide(scores: Tensor, allowed: Tensor | None, case: Case, variant: tuple[float, str]) -> Tensor:
    early = _early(case, variant[1])
    return hide_all(scores, all_rules(early), early)


def settle(weights: Tensor, allowed: Tensor | None, case: Case, variant: tuple[float, str]) -> Tensor:
    return weights if allowed is None else weights.masked_fill(~allowed, variant[0])
