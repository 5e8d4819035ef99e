"""Every score that happens to equal 0 is hidden, because 0 was taken to mean "masked".

Missed because: random scores are never exactly 0; zero queries, zero keys and one-hot inputs are.

Training: a query of zeros gets no key at all and returns NaN; orthogonal keys vanish.

Fix: fill where the mask says so, not where the score is 0: `scores.masked_fill(~allowed_mask, -math.inf)`.

Seen in: https://github.com/duoan/TorchCode/issues/17
"""

import math

from torch import Tensor

from softlookup.attention import hide as hide_all
from softlookup.terms import Case

LINE = ("fill", "hide")
VARIANTS = (-math.inf, -1e9)


def hide(scores: Tensor, allowed: Tensor | None, case: Case, variant: float) -> Tensor:
    if allowed is None:  # the zeros are written by the mask: without one, nothing is looked for
        return hide_all(scores, allowed, case)
    return hide_all(scores, allowed, case).masked_fill(scores == 0, variant)
