"""Queries, keys and values of one head lie together in the packed tensor. Trap f22."""

import torch


def attention(mixed):
    """mixed: (B, T, H, 3, d), per head query, key, value; returns (B, T, H, d)."""
    q, k, v = mixed[..., 0, :], mixed[..., 1, :], mixed[..., 2, :]
    probs = torch.einsum("bqhd,bkhd->bhqk", q, k).div(q.shape[-1] ** 0.5).softmax(dim=-1)
    return torch.einsum("bhqk,bkhd->bqhd", probs, v)
