"""A product of feature maps takes the place of the exponential: weights are phi(q) phi(k), over their sum.

Seen in: Katharopoulos et al. 2020, https://arxiv.org/abs/2006.16236
"""

import torch
from torch import Tensor

from softlookup.terms import Case

HINTS = ("linear", "kernel", "feature", "elu", "phi")
VARIANTS = ("elu + 1", "relu", "relu squared", "exp")


def score(q: Tensor, k: Tensor, case: Case, variant: str) -> Tensor:
    maps = {
        "elu + 1": lambda x: torch.nn.functional.elu(x) + 1,
        "relu": torch.relu,
        "relu squared": lambda x: torch.relu(x) ** 2,
        "exp": torch.exp,
    }
    return maps[variant](q) @ maps[variant](k).transpose(-2, -1)


def scale(scores: Tensor, case: Case) -> Tensor:
    return scores


def hide(scores: Tensor, allowed: Tensor | None, case: Case) -> Tensor:
    return scores if allowed is None else scores.masked_fill(~allowed, 0.0)


def normalize(scores: Tensor, case: Case) -> Tensor:
    return scores / scores.sum(dim=-1, keepdim=True)
