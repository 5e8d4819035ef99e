"""One sample's mask is used for the whole batch.

Missed because: with one sample, or samples of equal length, it is right; `mask[0]` broadcasts without a word.

Training: short samples attend to padding, long ones lose tokens.

Ask: two samples have different lengths: where does the mask of the second one come in?

Fix: keep the batch axis of the mask: `allowed_mask[:, None, None, :]`, never `allowed_mask[0]`.

Seen in: none of the collected reports.
"""

from torch import Tensor

from softlookup.attention import hide as hide_all
from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("spread", "mask scores", "hide", "visible")
VARIANTS = ("first", "last")


def _shared(case: Case, variant: str) -> Case:
    def pick(mask: Tensor | None) -> Tensor | None:
        if mask is None or mask.dim() < max(3, case.q.dim()):
            return mask
        return mask[:1] if variant == "first" else mask[-1:]

    return case.but(allowed_mask=pick(case.allowed_mask), additive_bias=pick(case.additive_bias))


def visible(case: Case, variant: str) -> Tensor | None:
    return all_rules(_shared(case, variant))


def hide(scores: Tensor, allowed: Tensor | None, case: Case, variant: str) -> Tensor:
    return hide_all(scores, allowed, _shared(case, variant))
