"""Einsum over heads-last tensors with a mask of blocked keys. Trap f28."""

import torch


def dot_product_attention(query, key, value, blocked_mask=None):
    """query, key, value: (B, T, H, d); blocked_mask: bool (B, 1, 1, T_k), True = hidden; returns (B, T, H, d)."""
    logits = torch.einsum("bthd,bshd->bhts", query, key) * query.shape[-1] ** -0.5
    if blocked_mask is not None:
        logits = torch.where(blocked_mask, -torch.inf, logits)
    return torch.einsum("bhts,bshd->bthd", torch.softmax(logits, dim=-1), value)
