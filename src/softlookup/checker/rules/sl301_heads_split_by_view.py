"""The width d_model is viewed straight as (B, H, T, d): a "head" is a block of tokens.

Positions and heads interleave: the first head is the first tokens, in pieces.

Missed because: the shape is the wanted one, and for one head, or one token, so are the numbers.

Training: each head sees T / H tokens, cut into pieces; what lies in another block is never looked at.

Ask: which tokens do the numbers of head 0 come from after this line?

Fix: cut the last axis only, then bring the heads forward: `x.view(B, T, H, d).transpose(1, 2)`.

Seen in: https://github.com/reczoo/FuxiCTR/issues/30,
https://github.com/649453932/Chinese-Text-Classification-Pytorch/issues/10
"""

from torch import Tensor

LINE = ("split",)
#: "and merged": the way back by view as well, which puts every token's pieces where they came from.
VARIANTS = ("split", "split and merged")


def split_heads(projected: Tensor, heads: int) -> Tensor:
    B, T, width = projected.shape
    return projected.reshape(B, heads, T, width // heads)


def merge_heads(context: Tensor, variant: str) -> Tensor:
    B, H, T, d = context.shape
    return context.reshape(B, T, H * d) if "merged" in variant else context.transpose(1, 2).flatten(2)
