"""Queries and keys are normalised before the product, and a temperature takes the place of 1 / sqrt(d_head).

Seen in: https://github.com/lucidrains/x-transformers/issues/190, https://github.com/Amshaker/unetr_plus_plus/issues/80
"""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from softlookup.checker.evidence import Evidence
from softlookup.checker.fitting import fit_factor
from softlookup.terms import Case

HINTS = ("norm", "cosine", "rsqrt")


FORMS = ("each head", "each head, centred", "all heads together")


def VARIANTS(evidence: Evidence) -> Iterator[tuple[str, float]]:  # noqa: N802
    """What is normalised, and the temperature that the answers show."""
    for form in FORMS:
        factor = fit_factor(evidence, "plain", lambda s, case, factor: s * factor, partial(_score, form))
        if factor is not None:
            yield form, factor
            return


def score(q: Tensor, k: Tensor, case: Case, variant: tuple[str, float]) -> Tensor:
    return _score(variant[0], q, k, case)


def scale(scores: Tensor, case: Case, variant: tuple[str, float]) -> Tensor:
    return scores * variant[1]


def _score(form: str, q: Tensor, k: Tensor, case: Case) -> Tensor:
    return _unit(q, form) @ _unit(k, form).transpose(-2, -1)


def _unit(x: Tensor, form: str) -> Tensor:
    """[B, H, T, d] of length 1: over the features of a head, or over those of all heads."""
    if form == FORMS[1]:
        x = x - x.mean(dim=-1, keepdim=True)
    if form != FORMS[2]:
        return torch.nn.functional.normalize(x, dim=-1)
    tokens = x.transpose(-3, -2)  # [B, T, H, d]
    return torch.nn.functional.normalize(tokens.flatten(-2), dim=-1).view(tokens.shape).transpose(-3, -2)
