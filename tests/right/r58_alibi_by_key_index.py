"""The linear bias by key index alone: a row constant less, and the softmax removes it. Trap f19."""

import torch


def alibi_attention(q, k, v):
    """Causal attention with ALiBi; q, k, v: (B, T, H, d), H a power of two, slopes 2 ** (-8 * h / H), h from 1."""
    T, H = q.shape[1], q.shape[2]
    slopes = torch.tensor([2.0 ** (-8.0 * h / H) for h in range(1, H + 1)])
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k).to(wide) / q.shape[-1] ** 0.5
    scores = scores + slopes.to(wide)[:, None, None] * torch.arange(T)[None, None, :]
    scores = scores + torch.full((T, T), -torch.inf, dtype=wide).triu(1)
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1).to(v.dtype), v)
