"""Report b142: https://github.com/yflyzhang/AnnotatedTransformer/issues/1

What is wrong: the value goes through the key's layer; v_proj is never used.
"""

import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """Attention of query to key and value, each (batch, length, d_model)."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.o_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def split_heads(self, x):
        return x.view(x.size(0), -1, self.num_heads, self.d_k).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        """mask: (batch, 1, length_k) or (batch, length_q, length_k), 0 where a query may not look"""
        query = self.split_heads(self.q_proj(query))
        key = self.split_heads(self.k_proj(key))
        value = self.split_heads(self.k_proj(value))  # bug
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1) == 0, -math.inf)
        attn = self.dropout(scores.softmax(dim=-1))
        x = torch.matmul(attn, value).transpose(1, 2).contiguous()
        return self.o_proj(x.view(x.size(0), -1, self.num_heads * self.d_k))
