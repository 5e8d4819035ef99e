"""The scores are softly capped: cap * tanh(score / cap).

Seen in: Gemma 2, https://arxiv.org/abs/2408.00118
"""

from collections.abc import Iterator
from math import isclose

from torch import Tensor

from softlookup.attention import STEPS
from softlookup.checker.evidence import Evidence
from softlookup.checker.fitting import fit_factor
from softlookup.terms import Case

#: What settings call it: attn_logit_softcapping, logit_softclamp_value.
_NAMES = ("cap", "clamp")


class CapOverBias(float):
    """A cap on the sum of score and bias, where the usual one is on the score alone."""


def VARIANTS(evidence: Evidence) -> Iterator[float]:  # noqa: N802
    """The cap that large scores show; where they show none, those that settings hold by name."""
    settings = evidence.sketch.settings if evidence.sketch is not None else {}
    measured = _measured(evidence, [float(value) for value in settings.values()])
    named = (float(value) for path, value in settings.items() if value > 1 and _says_cap(path))
    for cap in [measured] if measured is not None else dict.fromkeys(named):
        yield cap
        if evidence.probe("bias") is not None:
            yield CapOverBias(cap)


def scale(scores: Tensor, case: Case, variant: float) -> Tensor:
    scores = STEPS.scale(scores, case)
    if not isinstance(variant, CapOverBias) or case.additive_bias is None:
        return _capped(scores, variant)
    bias = case.additive_bias.nan_to_num(neginf=0.0).to(scores.dtype)
    return _capped(scores + bias, variant) - bias  # the next step adds the bias, which is capped here already


def _says_cap(path: str) -> bool:
    return any(name in path.rpartition(".")[2].lower() for name in _NAMES)


def _measured(evidence: Evidence, settings: list[float]) -> float | None:
    """The cap that large scores show, if it reaches down to them: what never binds is no cap."""
    seen = evidence.probe("large")
    if seen is None:
        return None
    cap = fit_factor(evidence, "large", lambda scores, case, cap: _capped(STEPS.scale(scores, case), cap))
    if cap is None or cap > _largest_score(seen.case.double()):
        return None
    # A small cap squashes ordinary scores: no known model has one that it does not hold as a setting.
    held = any(isclose(cap, value, rel_tol=1e-3) for value in settings)
    return cap if cap > 5 or held else None


def _largest_score(case: Case) -> float:
    scores = STEPS.score(case.q, STEPS.repeat_kv_heads(case.k, case), case)
    return float(STEPS.scale(scores, case).abs().max())


def _capped(scores: Tensor, cap: float) -> Tensor:
    return (scores / cap).tanh() * cap
