"""The softmax runs over the queries: columns of the weights sum to one, rows do not.

Missed because: the shapes are the same, every number lies between 0 and 1, and the loss still falls. With a
causal mask the last query gets almost nothing while the first column is shared among all.

Training: each key hands out one unit of attention instead of each query spending one; early positions starve.

Ask: add up one row of the weights, then one column: which of the two has to be one?

Fix: normalise over the key axis: `scores.softmax(dim=-1)` for scores of shape (..., T_q, T_k).

Seen in: https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146,
https://github.com/FudanNLP/fastNLP/issues/254,
https://github.com/nerminnuraydogan/vision-transformer/issues/1,
https://github.com/gjylt/DoubleAttentionNet/issues/3
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
    weights = scores.softmax(dim=-2)
    cut = variant == "hidden keys cut out"
    return weights.masked_fill(scores == -math.inf, 0.0) if cut else weights
