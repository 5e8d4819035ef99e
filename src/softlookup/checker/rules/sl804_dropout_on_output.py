"""The mixed output is dropped, the weights are not.

Missed because: evaluation is right, and the rate is the one that was asked for.

Training: features vanish instead of keys; no query learns to do without a key.

Ask: in training, do the rows of the weights show that anything was dropped?

Fix: drop the weights before the mix: `self.dropout(weights) @ v`.

Seen in: https://github.com/nikhilbarhate99/min-decision-transformer/issues/2,
https://github.com/cs231n/cs231n.github.io/issues/278
"""

from softlookup.checker.dropping import each_dropout
from softlookup.checker.evidence import Evidence, Judgement

LINE = ("dropping",)
NEEDS_FORWARD = True


def judge(evidence: Evidence) -> Judgement | None:
    """Features are 0 and the others show whole shares; behind the output projection that is usual."""
    found = each_dropout(evidence)
    if any(one.moves_shares or one.breaks for one in found):
        return None
    for one in found:
        if one.drops_features:
            facts = {"dropout": one.kind, "passes in training mode": len(one.passes)}
            return Judgement(facts, seen_in=one.passes[0].seen)
    return None
