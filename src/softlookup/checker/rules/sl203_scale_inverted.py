"""The scores are multiplied by sqrt(d_head) instead of divided by it.

Missed because: `scores / scale` with `scale = d ** -0.5` reads like a division by the root.

Training: the softmax picks one key from the first step on; gradients through it are almost zero.

Ask: does the spread of the scores come nearer to one by this factor, or does it move away?

Fix: divide by the root, or multiply by its inverse: `scores * q.shape[-1] ** -0.5`.

Seen in: https://github.com/esceptico/perceiver-io/issues/9,
https://github.com/lucidrains/x-transformers/issues/190
"""

import math

from torch import Tensor

from softlookup.terms import Case

LINE = ("scale kept", "scale")

VARIANTS = ("always", "unless the caller gives a scale")


def scale(scores: Tensor, case: Case, variant: str) -> Tensor:
    if case.scale is None:
        return scores * math.sqrt(case.q.shape[-1])
    return scores / case.scale if variant == "always" else scores * case.scale
