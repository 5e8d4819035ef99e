"""The mask is required, and None is not accepted."""

import torch


def attention(query, key, value, mask, dropout=None):
    """Compute attention; query, key, value: (batch, h, len, d_k); mask: bool or int, 0 = hidden."""
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / d_k**0.5
    scores = scores.masked_fill(mask == 0, float("-inf"))
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn
