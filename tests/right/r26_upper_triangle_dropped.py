"""The upper triangle above the diagonal is dropped, so a token sees itself. Trap f16."""

import torch


def causal_attention(queries, keys, values):
    """Causal attention, the token itself included. queries, keys, values: (b, heads, tokens, width)."""
    scores = queries @ keys.transpose(2, 3)
    drop = torch.triu(torch.ones(scores.shape[-2:], dtype=torch.bool), diagonal=1)
    scores = scores.masked_fill(drop, -torch.inf)
    return torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1) @ values
