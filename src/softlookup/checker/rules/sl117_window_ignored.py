"""A sliding window was declared and does nothing: all earlier keys are visible.

Missed because: short inputs fit into the window, and longer memory does not look like an error.

Training: none that shows; memory and time grow with the square, and a cache of the window's size then
disagrees.

Ask: how far back does the last query look when there are twice as many keys as the window holds?

Fix: hide keys older than the window: `allowed_mask & (i - j < window)`.

Seen in: https://github.com/jax-ml/jax/issues/32300, https://github.com/proger/hippogriff/issues/7,
https://github.com/karpathy/nanochat/pull/456
"""

from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("dropped", "window rebound", "hide", "normalize")


VARIANTS = ("always", "when it is the only rule", "with a mask", "with the causal rule")


def visible(case: Case, variant: str) -> Tensor | None:
    lost = {
        "always": True,
        "when it is the only rule": case.allowed_mask is None and case.causal is None,
        "with a mask": case.allowed_mask is not None,
        "with the causal rule": case.causal is not None,
    }[variant]
    return all_rules(case.but(window=None) if lost else case)
