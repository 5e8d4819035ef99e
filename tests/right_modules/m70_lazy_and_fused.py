"""One lazy layer for queries, keys and values: until the first call it has no weights to look at."""

import torch
from torch import nn


class LazySelfAttention(nn.Module):
    """Causal self-attention over x: (B, T, any width); the output is num_heads * head_dim wide."""

    def __init__(self, num_heads, head_dim):
        super().__init__()
        self.num_heads = num_heads
        width = num_heads * head_dim
        self.qkv = nn.LazyLinear(3 * width, bias=False)
        self.proj = nn.LazyLinear(width)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(dim=-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(batch, length, -1))
