"""Einsum over heads-first tensors with a mask of allowed keys."""

import torch


def attend(query, key, value, allowed_mask=None):
    """query, key, value: [B, H, T, d]; allowed_mask: bool [B, 1, T_q, T_k]; returns output and weights."""
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) / query.shape[-1] ** 0.5
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, value), weights
