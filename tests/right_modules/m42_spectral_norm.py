"""Projections whose largest singular value is held at one; a memory is looked at."""

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm


class SpectralCrossAttention(nn.Module):
    """One set of tokens, queries, looks at another, context: (B, T, width) and (B, S, width)."""

    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.to_q = spectral_norm(nn.Linear(width, width, bias=False))
        self.to_k = spectral_norm(nn.Linear(width, width, bias=False))
        self.to_v = spectral_norm(nn.Linear(width, width, bias=False))
        self.to_out = nn.Linear(width, width)

    def forward(self, queries, context):
        B, T, C = queries.shape
        q = self.to_q(queries).view(B, T, self.n_heads, -1).transpose(1, 2)
        k = self.to_k(context).view(B, context.size(1), self.n_heads, -1).permute(0, 2, 3, 1)
        v = self.to_v(context).view(B, context.size(1), self.n_heads, -1).transpose(1, 2)
        w = torch.softmax(torch.matmul(q, k) / (C // self.n_heads) ** 0.5, dim=-1)
        return self.to_out(torch.matmul(w, v).transpose(1, 2).reshape(B, T, C))
