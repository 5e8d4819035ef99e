"""A (T_q, T_k) mask that is True where attention is not allowed."""

import torch


def multihead_core(query, key, value, attn_mask=None):
    """query, key, value: (N, H, L, E); attn_mask: bool (L, S), True = not allowed to attend."""
    weights = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    if attn_mask is not None:
        weights = weights.masked_fill(attn_mask, float("-inf"))
    weights = torch.softmax(weights, -1)
    return weights @ value
