"""Measure a constant of a known variant: the factor under which its answers come nearest to the target's."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from softlookup.attention import STEPS
from softlookup.checker.evidence import Evidence
from softlookup.terms import Case

_GOLDEN = (math.sqrt(5) - 1) / 2


def fit_factor(
    evidence: Evidence,
    probe: str,
    scale: Callable[[Tensor, Case, float], Tensor],
    score: Callable[[Tensor, Tensor, Case], Tensor] = STEPS.score,
) -> float | None:
    """Return the factor with the smallest error on a probe, to about 9 digits; None if none is near.

    Searches the logarithm of the factor, from 0.001 to 1000, on a grid and then by golden section; snaps to a
    number that people type.
    """
    seen = evidence.probe(probe)
    if seen is None or seen.output is None:
        return None
    case = seen.case.double()
    rows = seen.real_rows
    theirs = seen.output.double()[rows]
    if not theirs.isfinite().all():
        return None

    def error(log: float) -> float:
        steps = STEPS.but(score=score, scale=lambda scores, case: scale(scores, case, math.exp(log)))
        return float((steps(case)[0][rows] - theirs).square().sum())

    grid = [math.log(10) * (n / 8 - 3) for n in range(49)]
    middle = min(grid, key=error)
    low, high = middle - math.log(10) / 8, middle + math.log(10) / 8
    for _ in range(44):
        a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, b) if error(a) < error(b) else (a, high)
    log = (low + high) / 2
    if math.sqrt(error(log) / theirs.numel()) > 0.01:
        return None
    factor = math.exp(log)
    typed = [t for t in (float(round(factor)), round(factor, 1), round(factor, 2)) if t > 0]
    as_near = 2 * error(log) + 1e-12 * theirs.numel()  # what rounding alone may add
    near = (t for t in typed if abs(t - factor) < 1e-4 * factor and error(math.log(t)) <= as_near)
    return next(near, factor)
