"""Returns the weights, then the output."""

import torch


def attention(query, key, value):
    """query, key, value: (B, H, T, d); returns (weights, context)."""
    weights = torch.softmax(query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5, -1)
    context = weights @ value
    return weights, context
