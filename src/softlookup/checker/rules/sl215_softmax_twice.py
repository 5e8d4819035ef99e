"""A softmax of a softmax: the weights are normalised a second time.

Missed because: rows still sum to one and every weight is positive; the map only looks calm.

Training: no weight can exceed e times another, hidden keys come back with a share each, and little is
learned.

Ask: what is the largest weight that a softmax over numbers between 0 and 1 can give?

Fix: call softmax once: remove the second call, or return the scores from the inner function.

Seen in: none of the collected reports.
"""

import math

from torch import Tensor

from softlookup.terms import Case

LINE = ("softmax again", "normalize")
VARIANTS = ("hidden keys come back", "masked again")


def normalize(scores: Tensor, case: Case, variant: str) -> Tensor:
    once = scores.softmax(dim=-1)
    return (once if variant != "masked again" else once.masked_fill(scores == -math.inf, -math.inf)).softmax(
        dim=-1
    )
