"""Every projection is a direction and a length (weight normalisation)."""

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class WeightNormAttention(nn.Module):
    def __init__(self, dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.query = weight_norm(nn.Linear(dim, dim))
        self.key = weight_norm(nn.Linear(dim, dim))
        self.value = weight_norm(nn.Linear(dim, dim))
        self.proj = weight_norm(nn.Linear(dim, dim))

    def forward(self, x: torch.Tensor, allowed_mask: torch.Tensor | None = None) -> torch.Tensor:
        """x: (B, T, dim)   allowed_mask: bool (B, 1, T, T), True = may look"""
        q, k, v = (f(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed_mask)
        return self.proj(y.transpose(1, 2).flatten(-2))
