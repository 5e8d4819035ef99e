"""Rotary positions, pairing neighbouring features. Trap f14."""

import torch


def rotary_attention(xq, xk, xv):
    """Attention with rotary position embedding (RoPE), base 10000. xq, xk, xv: (B, T, H, d), d even."""
    d, T = xq.shape[-1], xq.shape[1]
    angles = torch.outer(torch.arange(T), 10000.0 ** (-torch.arange(0, d, 2) / d))[:, None]
    cos, sin = angles.cos().to(xq.dtype), angles.sin().to(xq.dtype)

    def rotate(x):
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)

    scores = torch.einsum("bqhd,bkhd->bhqk", rotate(xq), rotate(xk)) * d**-0.5
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(dim=-1), xv)
