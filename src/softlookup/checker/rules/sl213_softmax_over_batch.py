"""The softmax runs across the batch: for every query and key the samples share one unit.

Missed because: `softmax(x)` without `dim`, or `dim=0` taken over from unbatched code, gives the right shape.

Training: every sample's output depends on its neighbours; with one sample all weights are 1.

Fix: normalise over the key axis: `scores.softmax(dim=-1)`.

Seen in: none of the collected reports.
"""

import math

from torch import Tensor

from softlookup.terms import Case

VARIANTS = (-math.inf, -1e9)  # what hidden scores are filled with: hidden in every sample, it shows


def hide(scores: Tensor, allowed: Tensor | None, case: Case, variant: float) -> Tensor:
    scores = scores if case.additive_bias is None else scores + case.additive_bias.to(scores.dtype)
    return scores if allowed is None else scores.masked_fill(~allowed, variant)


def normalize(scores: Tensor, case: Case) -> Tensor:
    return scores.softmax(dim=0)
