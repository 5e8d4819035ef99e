"""One learned query gathers a sequence into a single vector."""

import torch
from torch import nn


class AttentionPooling(nn.Module):
    """(B, T, dim) -> (B, dim); mask: bool (B, T), True = token counts."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Parameter(torch.randn(1, 1, dim))
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B, T, D = x.shape
        d = D // self.num_heads
        q = self.query.view(1, self.num_heads, 1, d)
        k = self.k_proj(x).view(B, T, self.num_heads, d).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.num_heads, d).transpose(1, 2)
        scores = (q * k).sum(dim=-1) / d**0.5  # (B, heads, T)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, :], float("-inf"))
        pooled = torch.einsum("bht,bhtd->bhd", scores.softmax(dim=-1), v)
        return self.out_proj(pooled.reshape(B, D))
