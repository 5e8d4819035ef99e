"""Report b196: https://github.com/cs231n/cs231n.github.io/issues/278

What is wrong: the product with the values comes before the dropout, which is meant for the softmax weights.
"""

import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """Attention of query (N, S, E) to key and value (N, T, E), with dropout on the attention weights."""

    def __init__(self, embed_dim, num_heads, dropout=0.1):
        super().__init__()
        self.key = nn.Linear(embed_dim, embed_dim)
        self.query = nn.Linear(embed_dim, embed_dim)
        self.value = nn.Linear(embed_dim, embed_dim)
        self.proj = nn.Linear(embed_dim, embed_dim)
        self.attn_drop = nn.Dropout(dropout)
        self.n_head = num_heads
        self.head_dim = embed_dim // num_heads

    def forward(self, query, key, value, attn_mask=None):
        """attn_mask: (S, T) bool, attn_mask[i, j] is False where query i may not look at key j"""
        N, S, E = query.shape
        T = key.shape[1]
        q = self.query(query).view(N, S, self.n_head, self.head_dim).transpose(1, 2)
        k = self.key(key).view(N, T, self.n_head, self.head_dim).transpose(1, 2)
        v = self.value(value).view(N, T, self.n_head, self.head_dim).transpose(1, 2)
        scores = q @ k.transpose(2, 3) / math.sqrt(self.head_dim)
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask == 0, -torch.inf)
        output = self.attn_drop(torch.softmax(scores, dim=-1) @ v)  # bug
        return self.proj(output.transpose(1, 2).reshape(N, S, E))
