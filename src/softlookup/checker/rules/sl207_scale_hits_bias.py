"""The bias is added before scaling, so it is scaled as well.

Missed because: boolean masks and -inf do not show it: only a finite bias (positions, ALiBi, a soft mask) is
smaller.

Training: position biases act at 1/sqrt(d_head) of their size; loaded biases do not mean what they meant.

Ask: the same bias at another d_head: does it count as much as before?

Fix: scale first, then add: `scores / math.sqrt(d_head) + bias`.

Seen in: none of the collected reports.
"""

from torch import Tensor

from softlookup.attention import hide as hide_all
from softlookup.attention import scale as scaled
from softlookup.terms import Case

LINE = ("scale",)


def scale(scores: Tensor, case: Case) -> Tensor:
    return scores


def hide(scores: Tensor, allowed: Tensor | None, case: Case) -> Tensor:
    return scaled(hide_all(scores, allowed, case), case)
