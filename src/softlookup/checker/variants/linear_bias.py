"""Scores fall with the distance of the key, at another rate in each head (ALiBi).

Seen in: Press et al. 2022, https://arxiv.org/abs/2108.12409
"""

import torch

from softlookup.masks import linear_distance
from softlookup.terms import Case

HINTS = ("alibi", "slope", "linear bias")


def assume(case: Case) -> Case:
    T_q, T_k, H = case.q.shape[-2], case.k.shape[-2], case.q.shape[1]
    slope = torch.tensor(linear_distance.slopes(H), dtype=case.q.dtype)[:, None, None]
    i, j = torch.arange(T_q)[:, None], torch.arange(T_k)
    bias = linear_distance.bias(i, j, q_len=T_q, k_len=T_k, slope=slope, corner=case.causal or "top-left")[
        None
    ]
    return case.but(additive_bias=bias if case.additive_bias is None else bias + case.additive_bias)
