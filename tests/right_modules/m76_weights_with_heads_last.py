"""Heads stay beside the features: scores and the weights that come back are (B, T_q, T_k, H)."""

import torch
from torch import nn


class HeadsLastAttention(nn.Module):
    """x: (B, T, dim); mask: bool (T, T), True where a key may be looked at. Returns (y, weights)."""

    def __init__(self, dim, num_heads, qkv_bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B, T, C = x.shape
        q, k, v = self.qkv(x).reshape(B, T, 3, self.num_heads, -1).unbind(2)  # (B, T, H, d)
        scores = torch.einsum("bihd,bjhd->bijh", q, k) * self.scale
        if mask is not None:
            scores = scores.masked_fill(~mask[None, :, :, None], float("-inf"))
        weights = scores.softmax(dim=2)  # over the keys
        y = torch.einsum("bijh,bjhd->bihd", weights, v).reshape(B, T, C)
        return self.proj(y), weights
