"""The softmax runs across the heads: for every query and key the heads share one unit.

Missed because: `dim=1` is the key axis of (B, T, T) in one version and the head axis of (B, H, T, T) in the
next.

Training: heads compete with each other instead of choosing keys; row sums vary from row to row.

Fix: normalise over the key axis: `scores.softmax(dim=-1)`.

Seen in: none of the collected reports as such; https://github.com/gjylt/DoubleAttentionNet/issues/3
normalises an axis that is no axis of the map.
"""

import math

from torch import Tensor

from softlookup.terms import Case

VARIANTS = (-math.inf, -1e9)  # what hidden scores are filled with: hidden in every head, it shows


def hide(scores: Tensor, allowed: Tensor | None, case: Case, variant: float) -> Tensor:
    scores = scores if case.additive_bias is None else scores + case.additive_bias.to(scores.dtype)
    return scores if allowed is None else scores.masked_fill(~allowed, variant)


def normalize(scores: Tensor, case: Case) -> Tensor:
    return scores.softmax(dim=-3)
