"""There is no softmax: raw scores, or scores divided by their sum mix the values.

Missed because: the shapes are right, and small networks still learn something from linear attention.

Training: weights are negative or unbounded, outputs explode as scores grow, and a row sum near 0 divides by
it.

Ask: which line makes sure that the weights of a query are positive and sum to one?

Fix: normalise before mixing: `scores.softmax(dim=-1) @ v`.

Seen in: none of the collected reports.
"""

import math

from torch import Tensor

from softlookup.terms import Case

LINE = ("share", "alias", "mix")
#: What mixes the values, and the number on hidden keys.
VARIANTS = (
    ("raw", 0.0),
    ("raw", -math.inf),
    ("raw", -1e9),
    ("sum", 0.0),
    ("sum", -math.inf),
)


def hide(scores: Tensor, allowed: Tensor | None, case: Case, variant: tuple[str, float]) -> Tensor:
    scores = scores if case.additive_bias is None else scores + case.additive_bias.to(scores.dtype)
    return scores if allowed is None else scores.masked_fill(~allowed, variant[1])


def normalize(scores: Tensor, case: Case, variant: tuple[str, float]) -> Tensor:
    if variant[0] == "sum":
        return scores / scores.sum(dim=-1, keepdim=True)
    return scores
