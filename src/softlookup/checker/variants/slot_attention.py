"""Queries compete: softmax over the queries, then every row is renormalised over the keys.

Seen in: Locatello et al. 2020, https://arxiv.org/abs/2006.15055
"""

from torch import Tensor

from softlookup.terms import Case

VARIANTS = (0.0, 1e-8, 1e-6, 1e-5)


def normalize(scores: Tensor, case: Case, variant: float) -> Tensor:
    weights = scores.softmax(dim=-2) + variant
    return weights / weights.sum(dim=-1, keepdim=True)
