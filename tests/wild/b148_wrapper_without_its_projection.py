"""Report b148: https://github.com/rasbt/LLMs-from-scratch/pull/68

What is wrong: the wrapper returns the concatenated heads, unlike the other variants, which project them.
"""

import torch
from torch import nn


class CausalAttention(nn.Module):
    """One causal head."""

    def __init__(self, d_in, d_out, context_length):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=False)
        self.W_key = nn.Linear(d_in, d_out, bias=False)
        self.W_value = nn.Linear(d_in, d_out, bias=False)
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))

    def forward(self, x):
        num_tokens = x.shape[1]
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        attn_scores = queries @ keys.transpose(1, 2)
        attn_scores = attn_scores.masked_fill(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
        return torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1) @ values


class MultiHeadAttentionWrapper(nn.Module):
    """num_heads causal heads side by side; x: (b, num_tokens, d_in)."""

    def __init__(self, d_in, d_out, context_length, num_heads):
        super().__init__()
        self.heads = nn.ModuleList(CausalAttention(d_in, d_out // num_heads, context_length) for _ in range(num_heads))
        self.out_proj = nn.Linear(d_out, d_out)

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=-1)  # bug
