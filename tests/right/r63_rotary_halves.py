"""Rotary positions, pairing each feature with the one half a width away. Trap f14."""

import torch


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def rotary_attention(q, k, v):
    """Attention with rotary position embedding (RoPE), base 10000. q, k, v: (B, H, T, d), d even."""
    d, T = q.shape[-1], q.shape[-2]
    freqs = 10000.0 ** (-torch.arange(0, d, 2) / d)
    angles = torch.outer(torch.arange(T), freqs).repeat(1, 2)
    cos, sin = angles.cos().to(q.dtype), angles.sin().to(q.dtype)
    q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
    return (q @ k.mT / d**0.5).softmax(dim=-1) @ v
