"""The heads (B, H, T, d) are viewed straight as (B, T, d_model), without the transpose back.

Missed because: the shape is right, and easy tasks are learned all the same.

Training: each output token is made of pieces of several tokens; the output projection mixes positions.

Ask: the numbers of one token lie in different heads: which axes have to meet before they are put side by
side?

Fix: tokens first again, then side by side: `context.transpose(1, 2).reshape(B, T, H * d)`.

Seen in: https://github.com/jsbaan/transformer-from-scratch/pull/6,
https://github.com/ajhalthor/Transformer-Neural-Network/pull/4, https://github.com/hackiey/QAnet-pytorch/issues/2,
https://github.com/meta-pytorch/opacus/pull/825,
https://github.com/jadore801120/attention-is-all-you-need-pytorch/issues/7
"""

from torch import Tensor

LINE = ("merge",)
#: Which axes were side by side when they were viewed.
VARIANTS = (
    "batch, heads, tokens",
    "heads, batch, tokens",
    "batch, tokens, features, heads",
    "batch, heads, features, tokens",
)


def merge_heads(context: Tensor, variant: str) -> Tensor:
    B, H, T, d = context.shape
    order = {
        "batch, heads, tokens": (0, 1, 2, 3),
        "heads, batch, tokens": (1, 0, 2, 3),
        "batch, tokens, features, heads": (0, 2, 3, 1),
        "batch, heads, features, tokens": (0, 1, 3, 2),
    }[variant]
    return context.permute(order).reshape(B, T, H * d)
