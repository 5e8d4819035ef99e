"""The row maximum is not subtracted before the exponential: large scores overflow, and inf / inf is NaN.

Missed because: at initialisation scores are near 1; in float32 it breaks above 88, in float16 above 11.

Training: runs for days, then a few scores grow and the loss is NaN in one step.

Fix: subtract the row maximum first: `(scores - scores.amax(-1, keepdim=True)).exp()`, or call `softmax`.

Seen in: https://github.com/pytorch/executorch/pull/18407,
https://github.com/tenstorrent/tt-metal/issues/12661
"""

import torch
from torch import Tensor

from softlookup.terms import Case

LINE = ("exp", "normalize")
VARIANTS = (
    "float32",
    "float16",
)  # the dtype in which the exponentials overflow (bfloat16 has float32's range)


def normalize(scores: Tensor, case: Case, variant: str) -> Tensor:
    powers = scores.to(getattr(torch, variant)).exp()
    return (powers / powers.sum(dim=-1, keepdim=True)).to(scores.dtype)
