"""Scores fall with the distance of the key, at another rate in each head (ALiBi).

Seen in: Press et al. 2022, https://arxiv.org/abs/2108.12409
"""

import torch
from torch import Tensor

from softlookup.attention import scale as scale_scores
from softlookup.masks.linear_distance import slopes as slopes_of
from softlookup.terms import Case

HINTS = ("alibi", "slope", "linear bias")


def scale(scores: Tensor, case: Case) -> Tensor:
    T_q, T_k = scores.shape[-2:]
    distance = (torch.arange(T_q)[:, None] + (T_k - T_q if case.causal == "bottom-right" else 0) - torch.arange(T_k)).abs()
    slopes = torch.tensor(slopes_of(case.q.shape[1]), dtype=scores.dtype)
    return scale_scores(scores, case) - slopes[:, None, None] * distance
