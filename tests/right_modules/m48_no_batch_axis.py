"""One sequence at a time, weights as bare parameters."""

import torch
import torch.nn as nn


class CausalAttention(nn.Module):
    """x: (num_tokens, d_in) without a batch axis; returns (num_tokens, d_out). One head, no output projection."""

    def __init__(self, d_in, d_out, context_length):
        super().__init__()
        self.W_query = nn.Parameter(torch.randn(d_in, d_out) / d_in**0.5)
        self.W_key = nn.Parameter(torch.randn(d_in, d_out) / d_in**0.5)
        self.W_value = nn.Parameter(torch.randn(d_in, d_out) / d_in**0.5)
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))

    def forward(self, x):
        keys = x @ self.W_key
        queries = x @ self.W_query
        values = x @ self.W_value
        attn_scores = queries @ keys.T
        attn_scores = attn_scores.masked_fill(self.mask.bool()[: len(x), : len(x)], -torch.inf)
        attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)
        return attn_weights @ values
