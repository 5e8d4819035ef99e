"""A linear bias (ALiBi) whose slopes are declared as 2 ** (-8 h / H), or for a power of two of heads.

Seen in: Press et al. 2022, https://arxiv.org/abs/2108.12409
"""

import torch

from softlookup.masks import linear_distance
from softlookup.terms import Case

WORDS = (
    "2 ** (-8",
    "2**(-8",
    "2^(-8",
    "h a power of two",
    "heads a power of two",
    "is a power of two",
    "be a power of two",
)


def assume(case: Case) -> Case:
    T_q, T_k, H = case.q.shape[-2], case.k.shape[-2], case.q.shape[1]
    slope = torch.tensor([2 ** (-8 * h / H) for h in range(1, H + 1)], dtype=case.q.dtype)[:, None, None]
    i, j = torch.arange(T_q)[:, None], torch.arange(T_k)
    bias = linear_distance.bias(i, j, q_len=T_q, k_len=T_k, slope=slope, corner=case.causal or "top-left")[
        None
    ]
    return case.but(additive_bias=bias if case.additive_bias is None else bias + case.additive_bias)
