"""The scores are dropped, not the weights: a dropped score is 0, which is a middling score like any other.

Missed because: evaluation is right, and rows of weights still sum to one in training.

Training: dropped keys get weight exp(0); a hidden key's -inf times 0 is NaN; the regularisation is another.

Fix: drop after the softmax: `weights = self.dropout(scores.softmax(dim=-1))`.

Seen in: https://github.com/karpathy/ng-video-lecture/issues/30
"""

from softlookup.checker.dropping import taken_apart
from softlookup.checker.evidence import Evidence, Judgement

LINE = ("drop",)
NEEDS_FORWARD = True


def judge(evidence: Evidence) -> Judgement | None:
    """Shares that change and still sum to one; or NaN in training mode alone, where -inf was dropped."""
    found = taken_apart(evidence)
    broken = [one for one in found if not one.finite]
    if broken:
        return Judgement({"outputs with NaN": len(broken)}, seen_in=broken[0].seen)
    moved = [one for one in found if one.shares_dropped]
    if len(moved) < 2 or not all(one.rows_sum_to_one for one in moved):
        return None
    return Judgement({"passes in training mode": len(found)}, seen_in=moved[0].seen)
