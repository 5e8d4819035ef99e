"""The fourth root of the width divides queries and keys. Trap f07."""

import torch


def qkv_attention(q, k, v):
    """q, k, v: (N, C, T), channels first; returns (N, C, T)."""
    scale = q.shape[1] ** -0.25
    weight = torch.einsum("bct,bcs->bts", q * scale, k * scale)
    weight = torch.softmax(weight, dim=-1)
    return torch.einsum("bts,bcs->bct", weight, v)
