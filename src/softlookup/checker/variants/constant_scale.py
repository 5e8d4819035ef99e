"""The scores are multiplied by a constant that does not depend on d_head.

Seen in: https://github.com/google/gemma_pytorch/blob/main/gemma/config.py
"""

import math
from collections.abc import Iterator

from torch import Tensor

from softlookup.checker.evidence import Evidence
from softlookup.checker.fitting import fit_factor
from softlookup.terms import Case

LAST = True  # in half precision a wrong width can look like a constant


def VARIANTS(evidence: Evidence) -> Iterator[float]:  # noqa: N802
    """The constant that the answers show. None at all (1.0) is scale-missing."""
    factor = fit_factor(evidence, "plain", scaled_by)
    if factor is not None and abs(factor - 1) > 0.01 and math.isfinite(factor):
        yield factor


def scaled_by(scores: Tensor, case: Case, factor: float) -> Tensor:
    return scores * factor


def scale(scores: Tensor, case: Case, variant: float) -> Tensor:
    return scores * (variant if case.scale is None else case.scale)
