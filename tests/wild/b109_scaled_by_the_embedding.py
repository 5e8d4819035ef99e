"""Report b109: https://github.com/FareedKhan-dev/train-llm-from-scratch/pull/3

What is wrong: a head scales by the width of the embedding, which it reads off x, not by its own head_size.
"""

import torch
from torch import nn


class Head(nn.Module):
    """One causal head."""

    def __init__(self, head_size, n_embed, context_length):
        super().__init__()
        self.key = nn.Linear(n_embed, head_size, bias=False)
        self.query = nn.Linear(n_embed, head_size, bias=False)
        self.value = nn.Linear(n_embed, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(context_length, context_length)))

    def forward(self, x):
        B, T, C = x.shape
        k, q = self.key(x), self.query(x)
        attn_weights = q @ k.transpose(-2, -1) * C**-0.5  # bug
        attn_weights = attn_weights.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        return attn_weights.softmax(dim=-1) @ self.value(x)


class MultiHeadAttention(nn.Module):
    """Causal attention of n_head heads, side by side; x: (B, T, n_embed)."""

    def __init__(self, n_head, n_embed, context_length):
        super().__init__()
        self.heads = nn.ModuleList([Head(n_embed // n_head, n_embed, context_length) for _ in range(n_head)])
        self.proj = nn.Linear(n_embed, n_embed)

    def forward(self, x):
        return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))
