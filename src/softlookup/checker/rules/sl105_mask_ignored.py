"""The mask argument has no influence on the output.

Missed because: the call is accepted, and `scores.masked_fill(...)` without an assignment reads like a
statement that does something.

Training: padding takes part in every average; results depend on how much padding a batch happens to have.

Ask: what changes in the output when every entry of the mask is turned around?

Fix: assign what the masking returns: `scores = scores.masked_fill(~allowed_mask, -math.inf)`.

Seen in: https://github.com/espnet/espnet/pull/1273, https://github.com/opendilab/DI-engine/issues/333,
https://github.com/lucidrains/flamingo-pytorch/issues/10,
https://github.com/facebookresearch/fairseq/issues/1682, https://github.com/zai-org/GLM-4-Voice/issues/182,
https://github.com/tensorflow/tensorflow/issues/43941
"""

from collections.abc import Iterable

from torch import Tensor

from softlookup.attention import hide as hide_all
from softlookup.attention import visible as all_rules
from softlookup.checker.evidence import Evidence
from softlookup.terms import Case

LINE = ("dropped", "mask scores", "hide", "normalize")


def VARIANTS(evidence: Evidence) -> Iterable[str]:  # noqa: N802
    """Without a mask argument there is nothing to ignore, and an ignored causal rule has its own name."""
    masked = any(seen.case.allowed_mask is not None for seen in evidence.observations)
    return ("the argument", "every rule") if masked else ("the argument",)


def visible(case: Case, variant: str) -> Tensor | None:
    if variant == "every rule":
        return None
    return all_rules(case.but(allowed_mask=None, additive_bias=None))


def hide(scores: Tensor, allowed: Tensor | None, case: Case, variant: str) -> Tensor:
    return hide_all(scores, allowed, case.but(additive_bias=None))
