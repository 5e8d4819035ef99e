"""The softmax runs across the batch: for every query and key the samples share one unit.

Missed because: `softmax(x)` without `dim`, or `dim=0` taken over from unbatched code, gives the right shape.

Training: every sample's output depends on its neighbours; with one sample all weights are 1.

Ask: put a sample into another batch: do its weights stay the same?

Fix: normalise over the key axis: `scores.softmax(dim=-1)`.

Seen in: none of the collected reports.
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
    weights = scores.softmax(dim=0)
    cut = variant == "hidden keys cut out"
    return weights.masked_fill(scores == -math.inf, 0.0) if cut else weights
