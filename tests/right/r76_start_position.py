"""Queries start at a given position of the cache."""

import torch


def cached_attention(q, keys, values, start_pos: int = 0):
    """Causal attention; q: (B, H, T_q, d) at positions start_pos and on   keys, values: (B, H, T_k, d) from position 0."""
    positions = start_pos + torch.arange(q.shape[2])
    hidden = torch.arange(keys.shape[2])[None, :] > positions[:, None]
    scores = q @ keys.transpose(2, 3) * q.shape[3] ** -0.5
    return scores.masked_fill(hidden, -torch.inf).softmax(dim=3) @ values
