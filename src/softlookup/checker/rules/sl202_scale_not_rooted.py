"""The scores are divided by d_head instead of its square root.

Missed because: it keeps scores small, which looks healthy; only the softmax is too flat.

Training: the more width, the more uniform the weights: at d_head 64 the scores have a deviation of 1/8 only.

Ask: a sum of d independent products of unit variance has variance d: what is its standard deviation?

Fix: take the root: `scores / math.sqrt(q.shape[-1])`.

Seen in: https://github.com/duoan/TorchCode/issues/17
"""

from torch import Tensor

from softlookup.checker.calls import Recorded
from softlookup.terms import Case

LINE = ("scale kept", "scale")


def scale(scores: Tensor, case: Case) -> Tensor:
    return scores / case.q.shape[-1] if case.scale is None else scores * case.scale


def recorded(calls: tuple[Recorded, ...]) -> bool:
    """Two divisions by the root (scale-doubled) give the same scores; this is one call."""
    fused = sum("scaled_dot_product" in call.op for call in calls)
    return fused + len({call.line for call in calls if _scales(call)}) < 2


def _scales(call: Recorded) -> bool:
    named = call.op.strip("_") in {"mul", "rmul", "imul", "multiply", "div", "divide", "truediv", "itruediv"}
    return named and len(call.numbers) == 1 and 1e-3 < call.numbers[0] < 1e3 and call.numbers[0] != 1
