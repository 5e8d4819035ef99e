"""Linear attention on features that come ready-made: weights are q k, over their sum; no exponential.

Seen in: Katharopoulos et al. 2020, https://arxiv.org/abs/2006.16236
"""

from torch import Tensor

from softlookup.terms import Case

WORDS = ("linear",)
TOTALS_MAY_CANCEL = True  # they are sums of signed numbers: rounding has no budget
VARIANTS = ("none", "added to the total", "added to the keys' sum")


def scale(scores: Tensor, case: Case) -> Tensor:
    return scores


def hide(scores: Tensor, allowed: Tensor | None, case: Case) -> Tensor:
    return scores if allowed is None else scores.masked_fill(~allowed, 0.0)


def normalize(scores: Tensor, case: Case, variant: str) -> Tensor:
    total = scores.sum(dim=-1, keepdim=True)
    if variant == "added to the keys' sum":
        total = total + 1e-6 * case.q.sum(dim=-1, keepdim=True)
    return scores / (total + 1e-6 if variant == "added to the total" else total)
