"""The row maximum is not subtracted before the exponential: large scores overflow, and inf / inf is NaN.

Missed because: at initialisation scores are near 1; in float32 it breaks above 88, in float16 above 11.

Training: runs for days, then a few scores grow and the loss is NaN in one step.

Ask: what is exp(1000), and what is the result divided by itself?

Fix: subtract the row maximum first: `(scores - scores.amax(-1, keepdim=True)).exp()`, or call `softmax`.

Seen in: https://github.com/pytorch/executorch/pull/18407,
https://github.com/tenstorrent/tt-metal/issues/12661
"""

import torch
from torch import Tensor

from softlookup.terms import Case

LINE = ("bare exp", "exp", "normalize")
#: The dtype in which the exponentials overflow (bfloat16 has float32's range), and what 0 / 0 becomes.
VARIANTS = (("float32", "NaN"), ("float16", "NaN"), ("float32", "zero"), ("float16", "zero"))


def normalize(scores: Tensor, case: Case, variant: tuple[str, str]) -> Tensor:
    dtype, underflow = variant
    powers = scores.to(getattr(torch, dtype)).exp()
    total = powers.sum(dim=-1, keepdim=True)
    shares = powers / total
    return (shares.masked_fill(total == 0, 0.0) if underflow == "zero" else shares).to(scores.dtype)
