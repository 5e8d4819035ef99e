"""A linear bias by distance, key minus query."""

import torch


def alibi_attention(q, k, v):
    """Causal attention with ALiBi; q, k, v: (B, H, T, d), H a power of two, slopes 2 ** (-8 * h / H), h from 1."""
    H, T = q.shape[1], q.shape[2]
    slopes = 2.0 ** (-8.0 * torch.arange(1, H + 1, dtype=q.dtype) / H)
    distance = torch.arange(T)[None, :] - torch.arange(T)[:, None]
    scores = q @ k.mT / q.shape[-1] ** 0.5 + slopes[:, None, None] * distance
    return scores.masked_fill(distance > 0, -torch.inf).softmax(dim=-1) @ v
