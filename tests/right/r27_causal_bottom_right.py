"""Causal for a cache: the last query meets the last key. Trap f01."""

import torch


def cached_attention(q, k, v):
    """Causal attention of new tokens over a cache. q: (B, H, T_new, d)   k, v: (B, H, T_all, d).

    The last query is aligned with the last key.
    """
    shift = k.shape[2] - q.shape[2]
    allowed = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(shift)
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
    return torch.where(allowed, scores, -torch.inf).softmax(-1) @ v
