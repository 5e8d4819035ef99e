"""Multi-head self-attention: one linear layer per role, and the softmax written out."""

import math

import torch
from torch import nn


class MultiHeadSelfAttention(nn.Module):
    """Multi-head self-attention with an output projection.

    x: (B, T, d_model)
    mask: bool or int of 0 and 1, broadcastable to (B, 1, T, T); True or 1 = the query may attend to the key.

    A query that may look nowhere mixes no values: its context is zero.
    Returns output (B, T, d_model) and weights (B, num_heads, T, T), one map per head.
    """

    def __init__(self, d_model, num_heads, dropout=0.1):
        super().__init__()
        assert d_model % num_heads == 0, "num_heads must divide d_model"
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        B, T, d_model = x.shape
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        q = q.view(B, T, self.num_heads, self.d_head).transpose(1, 2)
        k = k.view(B, T, self.num_heads, self.d_head).transpose(1, 2)
        v = v.view(B, T, self.num_heads, self.d_head).transpose(1, 2)

        scores = torch.matmul(q, k.transpose(-2, -1))
        scores = scores / math.sqrt(self.d_head)
        if mask is not None:
            hidden = ~mask.bool()
            scores = scores.masked_fill(hidden, -math.inf)

        # softmax over the keys, in float32 or better
        wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
        top = wide.detach().amax(dim=-1, keepdim=True)
        top = top.masked_fill(top == -math.inf, 0.0)
        exps = torch.exp(wide - top)
        total = exps.sum(dim=-1, keepdim=True)
        weights = exps / total.masked_fill(total == 0, 1.0)
        weights = self.dropout(weights.to(v.dtype))

        context = torch.matmul(weights, v)
        context = context.transpose(1, 2).contiguous().view(B, T, d_model)
        return self.out_proj(context), weights
