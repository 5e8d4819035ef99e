"""Grouped heads: each key/value head repeated in place."""

import torch


def gqa(q, k, v):
    """q: (B, H, T, d)   k, v: (B, H_kv, T, d)."""
    rep = q.shape[1] // k.shape[1]
    k = torch.repeat_interleave(k, rep, dim=1)
    v = torch.repeat_interleave(v, rep, dim=1)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    return scores.softmax(-1) @ v
