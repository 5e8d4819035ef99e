"""Queries and keys are rotated by their positions (RoPE): scores depend on the distance between them.

Both pairings, halves and neighbours, are right with weights that were trained for them, and so are all rates:
a rotation is known by what it does, scores that depend on the distance and vectors that keep their length.

Seen in: Su et al. 2021, https://arxiv.org/abs/2104.09864, https://github.com/EleutherAI/gpt-neox/issues/834,
https://arxiv.org/abs/2306.15595, https://arxiv.org/abs/2309.00071
"""

from collections.abc import Iterator

from torch import Tensor

from softlookup.checker.evidence import Evidence
from softlookup.checker.measured_rotations import long_answers, measured_rotation
from softlookup.checker.rotations import (
    PAIRINGS,
    Rotation,
    best_rotation,
    likely_rotations,
    measured_base,
    misfit,
    rotated_scores,
)
from softlookup.terms import Case

HINTS = ("rot", "rope", "freq")


def VARIANTS(evidence: Evidence) -> Iterator[Rotation]:  # noqa: N802
    """The rotation that the answers show; where another bug hides it, the likeliest of each pairing."""
    likely = likely_rotations(evidence)
    first = [next(one for one in likely if one.pairing == pairing) for pairing in PAIRINGS]
    best = best_rotation(evidence, likely, score)
    if best is None:
        best = best_rotation(evidence, (measured_base(evidence, score, one) for one in first), score)
    if best is not None:
        yield best
    longest = next((seen.probe for seen in long_answers(evidence)), "plain")
    if best is None or misfit(evidence, score, best, longest) >= 1:
        measured = measured_rotation(evidence)
        if measured is not None:
            yield measured
    if best is None:  # beside another bug what was measured may be nothing that is there
        yield from first


def score(q: Tensor, k: Tensor, case: Case, variant: Rotation) -> Tensor:
    return rotated_scores(q, k, case, variant)
