"""Dropout was asked for and does nothing in training.

Missed because: evaluation is right, and training works; it only overfits sooner.

Training: the rate in the configuration has no effect; sweeps over it compare noise.

Fix: use it: `weights = self.dropout(weights)`, or `dropout_p=self.dropout if self.training else 0.0`.

Seen in: none of the collected reports.
"""

from softlookup.checker.dropping import taken_apart
from softlookup.checker.evidence import Evidence, Judgement

LINE = ("drop", "mix")
NEEDS_FORWARD = True


def judge(evidence: Evidence) -> Judgement | None:
    found = taken_apart(evidence)
    if not found or not all(one.unchanged for one in found):
        return None
    return Judgement({"passes in training mode": len(found)}, seen_in=found[0].seen)
