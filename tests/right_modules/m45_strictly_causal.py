"""A token sees only what came before it, not itself; the first sees itself, or it would see nothing. Trap f17."""

import torch
from torch import nn


class StrictlyCausalAttention(nn.Module):
    """Strictly causal self-attention: key j is visible to query i when j < i (and 0 to 0)."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        earlier = torch.ones(T, T, dtype=torch.bool, device=x.device).tril(-1)
        earlier[0, 0] = True
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=earlier)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))
