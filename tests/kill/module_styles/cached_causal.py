"""Causal self-attention that can go on from the keys and values of earlier tokens."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class CachedSelfAttention(nn.Module):
    """Causal self-attention with a cache.

    x: (B, T_q, d_model)
    layer_past: keys and values of the tokens before x, each (B, num_heads, T_past, d_head), or None. All of
        them are visible, so the last query sees the last key (bottom-right).

    Returns output (B, T_q, d_model) and the grown pair of keys and values.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.to_query = nn.Linear(d_model, d_model)
        self.to_key = nn.Linear(d_model, d_model)
        self.to_value = nn.Linear(d_model, d_model)
        self.to_output = nn.Linear(d_model, d_model)
        self.dropout = dropout

    def _heads(self, x):
        return x.view(x.size(0), x.size(1), self.num_heads, self.d_head).permute(0, 2, 1, 3)

    def forward(self, x, layer_past=None):
        q = self._heads(self.to_query(x))
        k = self._heads(self.to_key(x))
        v = self._heads(self.to_value(x))
        if layer_past is not None:
            k = torch.cat([layer_past[0], k], dim=2)
            v = torch.cat([layer_past[1], v], dim=2)
        T_q, T_k = q.size(2), k.size(2)

        seen = torch.ones(T_q, T_k, dtype=torch.bool, device=x.device).tril(diagonal=T_k - T_q)
        w = torch.matmul(q, k.transpose(-1, -2))
        w = w / math.sqrt(self.d_head)
        w = torch.where(seen, w, -math.inf)
        w = F.softmax(w, dim=-1)
        w = F.dropout(w, self.dropout, self.training)
        a = torch.matmul(w, v)
        a = a.permute(0, 2, 1, 3).contiguous().view(x.size(0), T_q, -1)
        return self.to_output(a), (k, v)
