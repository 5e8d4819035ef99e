"""A boolean or 0/1 mask is added to the scores as a number: allowed keys gain 1, hidden keys lose nothing.

Missed because: a float mask is an additive bias and a boolean one is not, and both go through the same
argument.

Training: hidden keys keep most of their weight; the mask is only a slight preference.

Ask: what is True + score as a number, and how much smaller than before is a hidden score then?

Fix: fill instead of adding: `scores.masked_fill(~allowed_mask, -math.inf)`.

Seen in: https://github.com/huggingface/transformers/pull/41443, https://github.com/mlverse/torch/pull/1208
"""

from torch import Tensor

from softlookup.attention import hide as hide_all
from softlookup.attention import scale as scale_scores
from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("mask scores", "hide")
#: What an allowed key gains (a hidden key losing it is the same to a softmax), whether it is scaled after,
#: and which rules are added as numbers.
VARIANTS = (
    (1.0, "plain", "mask"),
    (-1.0, "plain", "mask"),
    (1.0, "plain", "all"),
    (-1.0, "plain", "all"),
    (1.0, "scaled", "all"),
    (-1.0, "scaled", "all"),
)


def _as_numbers(case: Case, which: str) -> Tensor | None:
    return case.allowed_mask if which == "mask" else all_rules(case.but(additive_bias=None))


def visible(case: Case, variant: tuple[float, str, str]) -> Tensor | None:
    if variant[2] == "mask":
        return all_rules(case.but(allowed_mask=None))
    return all_rules(Case(case.q, case.k, case.v, additive_bias=case.additive_bias))


def hide(scores: Tensor, allowed: Tensor | None, case: Case, variant: tuple[float, str, str]) -> Tensor:
    gain, when, which = variant
    mask = _as_numbers(case, which)
    if mask is not None:
        number = gain * mask.to(scores.dtype)
        scores = scores + (scale_scores(number, case) if when == "scaled" else number)
    return hide_all(scores, allowed, case)
