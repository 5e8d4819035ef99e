"""Local causal attention in blocks of queries: each block reads only the keys its window can reach."""

import torch
from torch import nn


class LocalAttention(nn.Module):
    """Causal self-attention in which token i sees the last ``window_size`` tokens, itself included.

    x: (B, T, dim). Returns (B, T, dim).
    """

    def __init__(self, dim, heads=4, dim_head=8, window_size=4, dropout=0.0):
        super().__init__()
        inner = heads * dim_head
        self.heads = heads
        self.scale = dim_head**-0.5
        self.window_size = window_size
        self.to_qkv = nn.Linear(dim, inner * 3, bias=False)
        self.to_out = nn.Linear(inner, dim, bias=False)
        self.attn_dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        q, k, v = (t.reshape(b, n, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        block = 4

        outs = []
        for start in range(0, n, block):
            stop = min(start + block, n)
            first = max(0, start - self.window_size + 1)
            i = torch.arange(start, stop, device=x.device)[:, None]
            j = torch.arange(first, stop, device=x.device)[None, :]
            visible = (j <= i) & (i - j < self.window_size)

            sim = q[:, :, start:stop] @ k[:, :, first:stop].mT
            sim = sim * self.scale
            sim = sim.masked_fill(~visible, float("-inf"))
            attn = sim.softmax(dim=-1)
            attn = self.attn_dropout(attn)
            outs.append(attn @ v[:, :, first:stop])
        out = torch.cat(outs, dim=2)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))
