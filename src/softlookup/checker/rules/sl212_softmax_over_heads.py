"""The softmax runs across the heads: for every query and key the heads share one unit.

Missed because: `dim=1` is the key axis of (B, T, T) in one version and the head axis of (B, H, T, T) in the
next.

Training: heads compete with each other instead of choosing keys; row sums vary from row to row.

Ask: for one query and one key, add up the weights of all heads: should that be one?

Fix: normalise over the key axis: `scores.softmax(dim=-1)`.

Seen in: none of the collected reports as such; https://github.com/gjylt/DoubleAttentionNet/issues/3
normalises an axis that is no axis of the map.
"""

import math

from torch import Tensor

from softlookup.attention import hide as hide_all
from softlookup.terms import Case

LINE = ("softmax", "sum", "normalize")
#: What hidden scores are filled with: it shows where everything that is normalised together is hidden.
VARIANTS = (-math.inf, -1e9, "as the plain formula", "hidden keys cut out")


def hide(scores: Tensor, allowed: Tensor | None, case: Case, variant: float | str) -> Tensor:
    if isinstance(variant, str):
        return hide_all(scores, allowed, case)
    scores = scores if case.additive_bias is None else scores + case.additive_bias.to(scores.dtype)
    return scores if allowed is None else scores.masked_fill(~allowed, variant)


def normalize(scores: Tensor, case: Case, variant: float | str) -> Tensor:
    weights = scores.softmax(dim=-3)
    cut = variant == "hidden keys cut out"
    return weights.masked_fill(scores == -math.inf, 0.0) if cut else weights
