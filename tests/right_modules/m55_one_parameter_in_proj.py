"""All three projections in one bare parameter, cut into rows where queries and keys differ."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn import Parameter


class MultiheadAttention(nn.Module):
    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True):
        super().__init__()
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.head_dim = embed_dim // num_heads
        self.in_proj_weight = Parameter(torch.empty(3 * embed_dim, embed_dim))  # rows: q, then k, then v
        self.in_proj_bias = Parameter(torch.zeros(3 * embed_dim)) if bias else None
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def _in_proj(self, x, number):
        rows = slice(number * self.embed_dim, (number + 1) * self.embed_dim)
        bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
        x = F.linear(x, self.in_proj_weight[rows], bias)
        return x.view(*x.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, query, key, value, key_padding_mask=None, attn_mask=None, need_weights=True):
        """query: (batch, L, E); key, value: (batch, S, E).

        key_padding_mask: bool (batch, S), True = ignored as padding
        attn_mask: bool (L, S), True = not allowed to attend
        Returns the output and the weights of every head, (batch, heads, L, S), or None.
        """
        q, k, v = self._in_proj(query, 0), self._in_proj(key, 1), self._in_proj(value, 2)
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask, float("-inf"))
        if key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask[:, None, None, :], float("-inf"))
        weights = F.softmax(scores, dim=-1)
        out = F.dropout(weights, self.dropout, self.training) @ v
        out = self.out_proj(out.transpose(1, 2).flatten(2))
        return out, weights if need_weights else None
