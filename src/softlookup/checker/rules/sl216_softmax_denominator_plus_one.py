"""An extra 1 in the denominator of the softmax that nobody declared: rows sum to less than one.

Missed because: with many keys the 1 is small beside the sum, and a small epsilon there is common practice.

Training: a head can attend to nothing; outputs shrink where scores are low. As a declared choice it is a
sink.

Ask: what does a row sum to, and where is the rest?

Fix: divide by the plain sum: `powers / powers.sum(dim=-1, keepdim=True)`.

Seen in: none of the collected reports as a bug; declared sinks:
https://github.com/fla-org/flash-linear-attention/pull/831
"""

from torch import Tensor

from softlookup.terms import Case

LINE = ("last denominator", "normalize")
VARIANTS = ("1 beside the powers", "1 beside the powers shifted by their maximum")


def normalize(scores: Tensor, case: Case, variant: str) -> Tensor:
    top = scores.amax(dim=-1, keepdim=True)
    level = top.clamp(min=0.0) if variant == "1 beside the powers" else top
    powers = (scores - level).exp()
    one = (-level).exp() if variant == "1 beside the powers" else 1.0
    return powers / (powers.sum(dim=-1, keepdim=True) + one)
