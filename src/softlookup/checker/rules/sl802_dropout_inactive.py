"""Dropout was asked for and does nothing in training.

Missed because: evaluation is right, and training works; it only overfits sooner.

Training: the rate in the configuration has no effect; sweeps over it compare noise.

Ask: run it twice in training mode with dropout 0.5: do the outputs differ?

Fix: use it: `weights = self.dropout(weights)`, or `dropout_p=self.dropout if self.training else 0.0`.

Seen in: none of the collected reports.
"""

import re

from softlookup.checker.dropping import each_dropout
from softlookup.checker.evidence import Evidence, Judgement

LINE = ("dropping", "mix")
NEEDS_FORWARD = True
#: Dropouts that are not meant for the weights.
_ELSEWHERE = re.compile(r"res|proj|out|path|hid|ff|embd|embed|config|cfg|args", re.IGNORECASE)


def judge(evidence: Evidence) -> Judgement | None:
    """No dropout touches the weights, and one that may be meant for them changes nothing at all."""
    found = each_dropout(evidence)
    if not found or any(one.moves_shares or one.breaks or one.drops_features for one in found):
        return None
    idle = [one for one in found if one.idle and not _ELSEWHERE.search(one.kind)]
    if not idle and not all(one.idle for one in found):
        return None
    first = (idle or found)[0]
    facts = {"dropout": first.kind, "passes in training mode": len(first.passes)}
    return Judgement(facts, seen_in=first.passes[0].seen)
