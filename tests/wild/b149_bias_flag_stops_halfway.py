"""Report b149: https://github.com/pytorch/pytorch/issues/52257

What is wrong: bias=False is meant for all four layers, and the output layer has a bias all the same.
"""

import torch.nn.functional as F
from torch import nn


class MultiheadAttention(nn.Module):
    """Self-attention; x: (batch, length, embed_dim)."""

    def __init__(self, embed_dim, num_heads, bias=True):
        """bias: give the input and output projections a bias"""
        super().__init__()
        self.num_heads = num_heads
        self.in_proj = nn.Linear(embed_dim, 3 * embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim)  # bug

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for t in self.in_proj(x).chunk(3, dim=-1))
        attn_output = F.scaled_dot_product_attention(q, k, v)
        return self.out_proj(attn_output.transpose(1, 2).flatten(2))
