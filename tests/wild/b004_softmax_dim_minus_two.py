"""Report b004: https://github.com/nerminnuraydogan/vision-transformer/issues/1

What is wrong: the patches' attention is normalised over the second last axis, the queries.
"""

from torch import nn


class PatchAttention(nn.Module):
    """Attention between image patches, after the heads have been split: (batch, heads, patches, dim_head)."""

    def forward(self, q, k, v):
        scale = q.shape[-1] ** -0.5
        dots = (q * scale) @ k.transpose(-1, -2)
        attn = dots.softmax(dim=-2)  # bug
        return attn @ v
