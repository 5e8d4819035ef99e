"""The heads are summed or averaged into one, not put side by side.

Missed because: the output projection is declared for one head's width, and everything fits.

Training: H heads of width d hand on d numbers instead of H * d; heads cannot say different things.

Ask: two heads have found different things: can the next layer still tell them apart?

Fix: concatenate: `context.transpose(1, 2).reshape(B, T, H * d)`, and an output projection of that width.

Seen in: none of the collected reports.
"""

from torch import Tensor

LINE = ("over heads", "merge")
VARIANTS = ("summed", "averaged", "summed and repeated", "averaged and repeated")


def merge_heads(context: Tensor, variant: str) -> Tensor:
    one = context.sum(dim=1) if "summed" in variant else context.mean(dim=1)
    return one.repeat(1, 1, context.shape[1]) if "repeated" in variant else one
