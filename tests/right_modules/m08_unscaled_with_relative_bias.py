"""Scores without a factor (the weights start small enough), and a table of biases by distance."""

import torch
from torch import nn


class RelativeAttention(nn.Module):
    """Multi-head attention whose scores are not scaled; see the initialisation of q."""

    def __init__(self, d_model, num_heads, d_kv, relative_attention_num_buckets=None):
        super().__init__()
        self.n_heads, self.d_kv = num_heads, d_kv
        inner = num_heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        self.buckets = relative_attention_num_buckets
        if self.buckets:
            self.relative_attention_bias = nn.Embedding(2 * self.buckets + 1, num_heads)

    def compute_bias(self, query_length, key_length):
        distance = torch.arange(key_length)[None, :] - torch.arange(query_length)[:, None]
        bucket = distance.clamp(-self.buckets, self.buckets) + self.buckets
        return self.relative_attention_bias(bucket).permute(2, 0, 1)[None]

    def forward(self, hidden_states, mask=None, position_bias=None):
        """mask: (batch, 1, 1, length), added to the scores; position_bias: (1, heads, length, length)."""
        B, T, _ = hidden_states.shape
        q, k, v = (f(hidden_states).view(B, T, self.n_heads, self.d_kv).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(3, 2)
        if position_bias is None and self.buckets:
            position_bias = self.compute_bias(T, T)
        if position_bias is not None:
            scores = scores + position_bias
        if mask is not None:
            scores = scores + mask
        weights = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)
        return self.o((weights @ v).transpose(1, 2).reshape(B, T, -1))
