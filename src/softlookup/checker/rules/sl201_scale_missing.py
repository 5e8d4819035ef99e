"""The scores are not divided by sqrt(d_head).

Missed because: shapes, masks and row sums are all right; at small widths the difference is small too.

Training: at d_head 64 the scores have a standard deviation of 8, the softmax saturates, and its gradients
vanish.

Ask: how does the spread of a dot product grow with the width of the vectors?

Fix: divide by the root of the width: `scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])`.

Seen in: https://github.com/mlc-ai/mlc-llm/pull/3426, https://github.com/PAIR-code/tiny-transformers/issues/71
"""

from torch import Tensor

from softlookup.terms import Case

LINE = ("score",)


def scale(scores: Tensor, case: Case) -> Tensor:
    return scores if case.scale is None else scores * case.scale
