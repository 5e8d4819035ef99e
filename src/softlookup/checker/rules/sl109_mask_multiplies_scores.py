"""The scores are multiplied by the mask: a hidden key gets score 0, and exp(0) is 1.

Missed because: a zero looks like "nothing", and after the softmax the hidden keys are no longer compared with
it.

Training: hidden keys weigh as much as an average key; when real scores are negative they win.

Ask: which weight does a key with score 0 get when the other scores are 0 too?

Fix: fill instead of multiplying: `scores.masked_fill(~allowed_mask, -math.inf)`.

Seen in: https://github.com/georg-wolflein/good-features/pull/1, https://github.com/duoan/TorchCode/issues/17
"""

from torch import Tensor

from softlookup.attention import hide as hide_all
from softlookup.attention import visible as all_rules
from softlookup.checker.calls import Recorded
from softlookup.terms import Case

LINE = ("mask scores", "hide")
VARIANTS = ("mask", "all")


def visible(case: Case, variant: str) -> Tensor | None:
    if variant == "mask":
        return all_rules(case.but(allowed_mask=None))
    return all_rules(Case(case.q, case.k, case.v, additive_bias=case.additive_bias))


def hide(scores: Tensor, allowed: Tensor | None, case: Case, variant: str) -> Tensor:
    mask = case.allowed_mask if variant == "mask" else all_rules(case.but(additive_bias=None))
    return hide_all(scores if mask is None else scores * mask.to(scores.dtype), allowed, case)


def recorded(calls: tuple[Recorded, ...]) -> bool:
    """Filling with 0 (mask-fill-too-weak) gives the same scores, by another call."""
    for call in calls:
        if call.op in {"softmax", "exp", "log_softmax"}:
            return False
        if call.op in {"mul", "mul_"} and sum(len(shape) > 1 for shape in call.inputs) == 2:
            return True
    return False
