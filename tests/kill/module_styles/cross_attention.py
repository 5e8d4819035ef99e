"""Cross-attention from one sequence to another of another length and width."""

import torch
from torch import einsum, nn


def exists(val):
    return val is not None


def default(val, d):
    return val if exists(val) else d


class CrossAttention(nn.Module):
    """Tokens of ``x`` look at tokens of ``context``.

    x: (B, T_q, dim)   context: (B, T_k, context_dim)
    context_mask: bool (B, T_k); True = a real token of the context, which may be attended to.

    scale: factor on the similarities, dim_head ** -0.5 when None.
    A sample without any real token of the context mixes all of them evenly. Returns (B, T_q, dim).
    """

    def __init__(self, dim, context_dim=None, heads=8, dim_head=64, dropout=0.0, scale=None):
        super().__init__()
        inner_dim = heads * dim_head
        self.heads = heads
        self.scale = default(scale, dim_head**-0.5)

        self.to_q = nn.Linear(dim, inner_dim, bias=False)
        self.to_kv = nn.Linear(default(context_dim, dim), inner_dim * 2, bias=False)
        self.to_out = nn.Linear(inner_dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, context, context_mask=None):
        b, n, h = *x.shape[:2], self.heads
        m = context.shape[1]

        q = self.to_q(x)
        k, v = self.to_kv(context).chunk(2, dim=-1)

        q = q.reshape(b, n, h, -1).transpose(1, 2)
        k = k.reshape(b, m, h, -1).transpose(1, 2)
        v = v.reshape(b, m, h, -1).transpose(1, 2)

        sim = einsum("b h i d, b h j d -> b h i j", q, k)
        sim = sim * self.scale

        if exists(context_mask):
            context_mask = context_mask.reshape(b, 1, 1, m)
            max_neg_value = -torch.finfo(sim.dtype).max
            sim = sim.masked_fill(~context_mask, max_neg_value)

        attn = sim.softmax(dim=-1)
        attn = self.dropout(attn)

        out = einsum("b h i j, b h j d -> b h i d", attn, v)
        out = out.transpose(1, 2).reshape(b, n, -1)
        return self.to_out(out)
