"""The scale is applied twice: once to the queries, and once more to the scores or inside a fused call.

Missed because: each place is right by itself, and they are often in different files.

Training: the weights start nearly uniform, as with a division by d_head; checkpoints do not carry over.

Ask: how often does the factor meet the scores on their way, counted over all calls?

Fix: scale in one place: leave `q` alone, or pass `scale=1.0` to the fused call.

Seen in: https://github.com/huggingface/transformers/pull/38290,
https://github.com/AI-Hypercomputer/maxtext/issues/3138
"""

from torch import Tensor

from softlookup.checker.calls import Recorded
from softlookup.terms import Case

VARIANTS = ("the same factor twice", "the usual factor on top")


def scale(scores: Tensor, case: Case, variant: str) -> Tensor:
    usual: float = case.q.shape[-1] ** -0.5
    asked = usual if case.scale is None else case.scale
    return scores * asked * (asked if variant == "the same factor twice" else usual)


def recorded(calls: tuple[Recorded, ...]) -> bool:
    """One division by d_head (scale-not-rooted) gives the same scores; this is two calls."""
    fused = sum("scaled_dot_product" in call.op for call in calls)
    return fused + len({call.line for call in calls if _scales(call)}) >= 2


def _scales(call: Recorded) -> bool:
    named = call.op.strip("_") in {"mul", "rmul", "imul", "multiply", "div", "divide", "truediv", "itruediv"}
    return named and len(call.numbers) == 1 and 1e-3 < call.numbers[0] < 1e3 and call.numbers[0] != 1
