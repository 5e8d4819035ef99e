"""Report b211: https://github.com/kyegomez/movie-gen/issues/8

What is wrong: the attention reads (batch, frames, dim) as (frames, batch, dim), so a frame looks at other clips.
"""

from torch import nn


class TemporalAttentionBlock(nn.Module):
    """Attention over the frames of each clip, with a norm before it and the input added; x: (batch, frames, dim)."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, num_heads)  # bug

    def forward(self, x):
        """x: (batch, frames, dim), one row per clip"""
        normed = self.norm(x)
        attended, _ = self.attention(normed, normed, normed)
        return x + attended
