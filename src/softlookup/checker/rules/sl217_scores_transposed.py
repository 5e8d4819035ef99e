"""K Q^T is used as Q K^T: each query is weighed by how well the keys' questions match its own key.

Missed because: for T_q == T_k the shapes agree, and with q and k from one input the scores look alike.

Training: queries and keys swap their roles, which projections can learn; under a mask they cannot.

Ask: in the entry at row i and column j, whose question meets whose key?

Fix: put queries on the rows: `q @ k.transpose(-2, -1)`.

Seen in: none of the collected reports; harmless look-alikes: https://github.com/karpathy/llm.c/pull/531
"""

from collections.abc import Iterator

from torch import Tensor

from softlookup.attention import score as dot_products
from softlookup.checker.evidence import Evidence
from softlookup.checker.rotations import (
    Rotation,
    best_rotation,
    likely_rotations,
    rotated_scores,
    says_rotation,
)
from softlookup.terms import Case


def VARIANTS(evidence: Evidence) -> Iterator[Rotation | None]:  # noqa: N802
    """Plain products; of rotated queries and keys where names or source speak of rotations."""
    yield None
    if says_rotation(evidence.sketch):
        best = best_rotation(evidence, likely_rotations(evidence), _rotated)
        if best is not None:
            yield best


def score(q: Tensor, k: Tensor, case: Case, variant: Rotation | None = None) -> Tensor:
    return dot_products(q, k, case).transpose(-2, -1) if variant is None else _rotated(q, k, case, variant)


def _rotated(q: Tensor, k: Tensor, case: Case, rotation: Rotation) -> Tensor:
    return rotated_scores(q, k, case, rotation).transpose(-2, -1)
