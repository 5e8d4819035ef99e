"""Every score that happens to equal 0 is hidden, because 0 was taken to mean "masked".

Missed because: random scores are never exactly 0; zero queries, zero keys and one-hot inputs are.

Training: a query of zeros gets no key at all and returns NaN; orthogonal keys vanish.

Ask: can two vectors that are both real have a dot product of exactly 0?

Fix: fill where the mask says so, not where the score is 0: `scores.masked_fill(~allowed_mask, -math.inf)`.

Seen in: https://github.com/duoan/TorchCode/issues/17
"""

import math

from torch import Tensor

from softlookup.attention import hide as hide_all
from softlookup.terms import Case

LINE = ("fill", "hide")
#: What the zeros are filled with, when they are looked for (the mask writes them, but it may not be asked),
#: and what a row of only zeros becomes.
VARIANTS = tuple(
    (fill, when, row)
    for fill, row in ((-math.inf, "NaN"), (-math.inf, "zero"), (-1e9, "uniform"))
    for when in ("any rule", "a mask", "always")
)


def hide(scores: Tensor, allowed: Tensor | None, case: Case, variant: tuple[float, str, str]) -> Tensor:
    fill, when, _ = variant
    asked = {"any rule": allowed is not None, "a mask": case.allowed_mask is not None, "always": True}[when]
    hidden = hide_all(scores, allowed, case)
    return hidden.masked_fill(scores == 0, fill) if asked else hidden


def normalize(scores: Tensor, case: Case, variant: tuple[float, str, str]) -> Tensor:
    weights = scores.softmax(dim=-1)
    return weights.nan_to_num(0.0) if variant[2] == "zero" else weights
