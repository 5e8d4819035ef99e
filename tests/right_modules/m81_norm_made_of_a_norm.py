"""The norm before the projections is a module of its own that holds PyTorch's LayerNorm."""

import torch
from torch import nn


class CentredLayerNorm(nn.Module):
    """LayerNorm whose learned factor is kept as its distance from 1."""

    def __init__(self, dim):
        super().__init__()
        self.ln = nn.LayerNorm(dim, elementwise_affine=False)
        self.gamma = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return self.ln(x) * (self.gamma + 1)


class Attention(nn.Module):
    """(B, T, dim) -> (B, T, dim), with rotations of queries and keys by their positions."""

    def __init__(self, dim, heads, dim_head):
        super().__init__()
        inner = heads * dim_head
        self.heads = heads
        self.norm = CentredLayerNorm(dim)
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_k = nn.Linear(dim, inner, bias=False)
        self.to_v = nn.Linear(dim, inner, bias=False)
        self.to_out = nn.Linear(inner, dim, bias=False)

    def rotated(self, x):
        half = x.shape[-1] // 2
        rates = 10_000 ** (-torch.arange(half, device=x.device) / half)
        angles = torch.outer(torch.arange(x.shape[-2], device=x.device), rates)
        first, second = x[..., :half], x[..., half:]
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    def forward(self, x):
        b, n, _ = x.shape
        x = self.norm(x)
        q, k, v = (
            project(x).view(b, n, self.heads, -1).transpose(1, 2)
            for project in (self.to_q, self.to_k, self.to_v)
        )
        out = nn.functional.scaled_dot_product_attention(self.rotated(q), self.rotated(k), v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))
