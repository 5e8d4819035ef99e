"""Report b106: https://github.com/lucidrains/vit-pytorch/issues/65

What is wrong: the scale is that of the model width, heads * dim_head, not of one head.
"""

from torch import nn


class HeadsAttention(nn.Module):
    """Attention inside a vision block; q, k, v: (batch, heads, patches, dim_head)."""

    def forward(self, q, k, v):
        _, heads, _, dim_head = q.shape
        dim = heads * dim_head
        dots = (q @ k.transpose(-2, -1)) * dim**-0.5  # bug
        attn = dots.softmax(dim=-1)
        return attn @ v
