"""A padding mask marks the tokens that ask and those that are asked: rows of padding are no concern."""

import torch
from torch import nn


class Attention(nn.Module):
    """Pre-norm self-attention over padded sequences; mask: bool (b, n), True = a real token."""

    def __init__(self, dim, heads, dim_head):
        super().__init__()
        inner = heads * dim_head
        self.heads = heads
        self.scale = dim_head**-0.5
        self.norm = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, 3 * inner, bias=False)
        self.to_out = nn.Linear(inner, dim)

    def forward(self, x, mask=None):
        b, n, _ = x.shape
        q, k, v = self.to_qkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * self.scale
        if mask is not None:
            both = mask[:, None, :, None] & mask[:, None, None, :]
            scores = scores.masked_fill(~both, -torch.finfo(scores.dtype).max)
        out = scores.softmax(dim=-1) @ v
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))
