"""A linear bias (ALiBi) whose slopes 2 ** (-8 h / H) are declared for a power of two of heads.

Seen in: Press et al. 2022, https://arxiv.org/abs/2108.12409
"""

import torch
from torch import Tensor

from softlookup.attention import scale as scale_scores
from softlookup.terms import Case

WORDS = ("h a power of two", "heads a power of two", "is a power of two", "be a power of two")


def scale(scores: Tensor, case: Case) -> Tensor:
    T_q, T_k, H = *scores.shape[-2:], case.q.shape[1]
    distance = (torch.arange(T_q)[:, None] + (T_k - T_q if case.causal == "bottom-right" else 0) - torch.arange(T_k)).abs()
    slopes = 2.0 ** (-8.0 * torch.arange(1, H + 1, dtype=scores.dtype) / H)
    return scale_scores(scores, case) - slopes[:, None, None] * distance
