"""The weights returned are averaged over the heads. Trap f26."""

import torch


def attention(query, key, value, need_weights=True):
    """query, key, value: (N, H, L, E); returns the output and the weights averaged over heads, (N, L, S)."""
    weights = torch.softmax(query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5, dim=-1)
    output = weights @ value
    return (output, weights.mean(dim=1)) if need_weights else (output, None)
