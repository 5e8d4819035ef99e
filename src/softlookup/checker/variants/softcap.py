"""The scores are softly capped: cap * tanh(score / cap).

Seen in: Gemma 2, https://arxiv.org/abs/2408.00118
"""

from collections.abc import Iterator

from torch import Tensor

from softlookup.attention import scale as scale_scores
from softlookup.checker.evidence import Evidence
from softlookup.checker.fitting import fit_factor
from softlookup.terms import Case

HINTS = ("cap", "tanh")


def VARIANTS(evidence: Evidence) -> Iterator[float]:  # noqa: N802
    """The cap that a setting holds, else the one that large scores show."""
    sketch = evidence.sketch
    settings = sketch.settings.items() if sketch is not None else ()
    held = [float(v) for path, v in settings if "cap" in path.rpartition(".")[2].lower() and v > 1]
    if held:
        yield held[0]
        return
    factor = fit_factor(
        evidence, "large", lambda scores, case, cap: (scale_scores(scores, case) / cap).tanh() * cap
    )
    if factor is not None and factor > 5:  # a smaller cap squashes ordinary scores: no known model does
        yield factor


def scale(scores: Tensor, case: Case, variant: float) -> Tensor:
    return (scale_scores(scores, case) / variant).tanh() * variant
