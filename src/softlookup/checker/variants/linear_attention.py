"""A product of feature maps takes the place of the exponential: weights are phi(q) phi(k), over their sum.

Seen in: Katharopoulos et al. 2020, https://arxiv.org/abs/2006.16236
"""

from collections.abc import Callable

import torch
from torch import Tensor

from softlookup.terms import Case

HINTS = ("linear", "kernel", "feature", "elu", "phi")
TOTALS_MAY_CANCEL = True  # they are sums of signed numbers: rounding has no budget
VARIANTS = tuple(
    (features, guard)
    for features in ("elu + 1", "relu", "relu squared", "exp")
    for guard in ("none", "clamp", "added")
)


def score(q: Tensor, k: Tensor, case: Case, variant: tuple[str, str]) -> Tensor:
    maps: dict[str, Callable[[Tensor], Tensor]] = {
        "elu + 1": lambda x: torch.nn.functional.elu(x) + 1,
        "relu": torch.relu,
        "relu squared": lambda x: torch.relu(x) ** 2,
        "exp": torch.exp,
    }
    return maps[variant[0]](q) @ maps[variant[0]](k).transpose(-2, -1)


def scale(scores: Tensor, case: Case) -> Tensor:
    return scores


def hide(scores: Tensor, allowed: Tensor | None, case: Case) -> Tensor:
    return scores if allowed is None else scores.masked_fill(~allowed, 0.0)


def normalize(scores: Tensor, case: Case, variant: tuple[str, str]) -> Tensor:
    total = scores.sum(dim=-1, keepdim=True)
    return scores / {"none": total, "clamp": total.clamp(min=1e-6), "added": total + 1e-6}[variant[1]]
