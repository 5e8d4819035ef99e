"""Causal attention with ALiBi and an optional sliding window."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class WindowedAlibiAttention(nn.Module):
    """Causal self-attention with linear biases.

    x: (B, T, d_model)
    key_padding_mask: bool (B, T); True = a real token that may be attended to, False = padding.
    window_size: number of tokens a token sees, itself included; None = all earlier ones.

    The rows of Wqkv are all queries, then all keys, then all values.
    A query that may look nowhere mixes no values. Returns (B, T, d_model).
    """

    def __init__(self, d_model, n_heads, window_size=None, attn_pdrop=0.0):
        super().__init__()
        self.n_heads = n_heads
        self.window_size = window_size
        self.attn_pdrop = attn_pdrop
        self.Wqkv = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        slopes = 1.0 / 2.0 ** (8.0 * torch.arange(1, n_heads + 1) / n_heads)
        self.register_buffer("slopes", slopes, persistent=False)

    def bias(self, T, dtype):
        """(n_heads, T, T): 0 on the diagonal, falling to both sides, -inf where nobody may look."""
        steps = torch.arange(T, device=self.slopes.device)
        distance = steps.view(T, 1) - steps.view(1, T)
        bias = -distance.abs() * self.slopes.view(-1, 1, 1)
        bias = bias.masked_fill(distance < 0, -math.inf)
        if self.window_size is not None:
            bias = bias.masked_fill(distance >= self.window_size, -math.inf)
        return bias.to(dtype)

    def forward(self, x, key_padding_mask=None):
        B, T, d_model = x.shape
        query, key, value = self.Wqkv(x).chunk(3, dim=2)
        query, key, value = (
            t.view(B, T, self.n_heads, d_model // self.n_heads).permute(0, 2, 1, 3) for t in (query, key, value)
        )
        scores = query.matmul(key.mT)
        scores = scores / math.sqrt(query.size(-1))
        scores = scores + self.bias(T, scores.dtype)
        if key_padding_mask is not None:
            scores = scores.masked_fill(~key_padding_mask.view(B, 1, 1, T), -math.inf)
        nowhere = scores.detach().isneginf().all(dim=-1, keepdim=True)
        probs = torch.softmax(scores.masked_fill(nowhere, 0.0), dim=-1)
        probs = probs.masked_fill(nowhere, 0.0)
        probs = F.dropout(probs, p=self.attn_pdrop, training=self.training)
        out = probs.matmul(value)
        out = out.permute(0, 2, 1, 3).reshape(B, T, d_model)
        return self.out_proj(out)
