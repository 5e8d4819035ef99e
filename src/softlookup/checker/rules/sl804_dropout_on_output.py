"""The mixed output is dropped, the weights are not.

Missed because: evaluation is right, and the rate is the one that was asked for.

Training: features vanish instead of keys; no query learns to do without a key.

Fix: drop the weights before the mix: `self.dropout(weights) @ v`.

Seen in: https://github.com/nikhilbarhate99/min-decision-transformer/issues/2,
https://github.com/cs231n/cs231n.github.io/issues/278
"""

from softlookup.checker.dropping import dropped_after_projection, taken_apart
from softlookup.checker.evidence import Evidence, Judgement

LINE = ("drop",)
NEEDS_FORWARD = True


def judge(evidence: Evidence) -> Judgement | None:
    """Features are 0 and the others show whole shares; behind the output projection that is usual."""
    found = taken_apart(evidence)
    if not found or any(one.shares_dropped for one in found) or not any(one.finite for one in found):
        return None
    if not any(bool(one.zero_features.any()) for one in found) or dropped_after_projection(evidence):
        return None
    return Judgement({"passes in training mode": len(found)}, seen_in=found[0].seen)
