"""Causal attention with linear biases (ALiBi) in place of positions, Press et al. 2022, arXiv 2108.12409."""

import torch


def alibi_attention(q, k, v):
    """Causal attention that favours near keys: head h subtracts slope_h times the distance from its scores.

    q: (B, H, T, d)   k: (B, H, T, d)   v: (B, H, T, d_v)
        The slopes are 2 ** (-8 * (h + 1) / H) for h = 0..H-1. Each query sees itself and earlier keys.

    Returns (B, H, T, d_v).
    """
    H, T, d = q.shape[1], q.shape[2], q.shape[3]
    slopes = 2.0 ** (-8.0 * torch.arange(1, H + 1, device=q.device, dtype=q.dtype) / H)
    positions = torch.arange(T, device=q.device, dtype=q.dtype)
    distance = positions[:, None] - positions[None, :]
    bias = -slopes[:, None, None] * distance

    scores = q @ k.transpose(-2, -1)
    scores = scores / d**0.5
    scores = scores + bias
    scores = scores.masked_fill(distance < 0, float("-inf"))
    weights = scores.softmax(dim=-1)
    return weights @ v
