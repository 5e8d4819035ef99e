"""The scores are dropped, not the weights: a dropped score is 0, which is a middling score like any other.

Missed because: evaluation is right, and rows of weights still sum to one in training.

Training: dropped keys get weight exp(0); a hidden key's -inf times 0 is NaN; the regularisation is another.

Ask: which weight does a key get whose score was set to 0?

Fix: drop after the softmax: `weights = self.dropout(scores.softmax(dim=-1))`.

Seen in: https://github.com/karpathy/ng-video-lecture/issues/30
"""

from softlookup.checker.dropping import each_dropout
from softlookup.checker.evidence import Evidence, Judgement

LINE = ("dropping",)
NEEDS_FORWARD = True


def judge(evidence: Evidence) -> Judgement | None:
    """Shares that change and still sum to one; or NaN in training mode alone, where -inf was dropped."""
    for one in each_dropout(evidence):
        if one.breaks or one.moves_scores:
            broken = sum(not each.finite for each in one.passes)
            facts = {"dropout": one.kind, "passes in training mode": len(one.passes), "with NaN": broken}
            return Judgement(facts, seen_in=one.passes[0].seen)
    return None
