"""Scores fall with the distance of the key, at another rate in each head (ALiBi).

Seen in: Press et al. 2022, https://arxiv.org/abs/2108.12409
"""

from collections.abc import Iterator

import torch

from softlookup.checker.evidence import Evidence
from softlookup.masks import linear_distance
from softlookup.terms import Case

HINTS = ("alibi", "slope", "linear bias")


def VARIANTS(evidence: Evidence) -> Iterator[str]:  # noqa: N802
    """Without an absolute value keys after the query would gain: seen only where the causal rule fails."""
    source = evidence.sketch.source if evidence.sketch is not None else ""
    yield "behind minus ahead" if source and "abs(" not in source else "by distance"


def assume(case: Case, variant: str) -> Case:
    T_q, T_k, H = case.q.shape[-2], case.k.shape[-2], case.q.shape[1]
    slope = torch.tensor(linear_distance.slopes(H), dtype=case.q.dtype)[:, None, None]
    i, j = torch.arange(T_q)[:, None], torch.arange(T_k)
    corner = case.causal or "top-left"
    bias = linear_distance.bias(i, j, q_len=T_q, k_len=T_k, slope=slope, corner=corner)[None]
    if variant == "behind minus ahead":
        bias = torch.where(j > i + (T_k - T_q if corner == "bottom-right" else 0), -bias, bias)
    return case.but(additive_bias=bias if case.additive_bias is None else bias + case.additive_bias)
