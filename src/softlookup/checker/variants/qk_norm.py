"""Queries and keys are normalised before the product, and a temperature takes the place of 1 / sqrt(d_head).

Seen in: https://github.com/lucidrains/x-transformers/issues/190, https://github.com/Amshaker/unetr_plus_plus/issues/80
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from softlookup.checker.evidence import Evidence
from softlookup.checker.fitting import fit_factor
from softlookup.terms import Case

HINTS = ("norm", "cosine", "rsqrt")


def VARIANTS(evidence: Evidence) -> Iterator[float]:  # noqa: N802
    """The temperature that the answers show."""
    factor = fit_factor(evidence, "plain", lambda scores, case, factor: scores * factor, score)
    if factor is not None:
        yield factor


def score(q: Tensor, k: Tensor, case: Case) -> Tensor:
    unit = torch.nn.functional.normalize
    return unit(q, dim=-1) @ unit(k, dim=-1).transpose(-2, -1)


def scale(scores: Tensor, case: Case, variant: float) -> Tensor:
    return scores * variant
