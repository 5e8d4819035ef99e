"""Asking for causal attention switches the given mask off.

Missed because: each rule works when it is tested alone, and fused kernels often take one of the two only.

Training: padding is visible in every causal batch, and the packed or padded samples disturb each other.

Ask: when causal attention is asked for and a mask is given too, which line reads the mask?

Fix: combine the rules instead of choosing one: `allowed_mask & causal_mask`.

Seen in: https://github.com/pytorch/pytorch/issues/131254,
https://github.com/AI-Hypercomputer/maxtext/issues/878
"""

from torch import Tensor

from softlookup.attention import hide as hide_all
from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("both asked", "overwritten", "hide", "normalize")


def _dropped(case: Case) -> Case:
    return case if case.causal is None else case.but(allowed_mask=None, additive_bias=None)


def visible(case: Case) -> Tensor | None:
    return all_rules(_dropped(case))


def hide(scores: Tensor, allowed: Tensor | None, case: Case) -> Tensor:
    return hide_all(scores, allowed, _dropped(case))
