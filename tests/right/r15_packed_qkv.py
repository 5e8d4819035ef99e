"""Queries, keys and values packed in one tensor."""

import torch


def qkvpacked_attention(qkv, causal=False):
    """qkv: (batch, seqlen, 3, nheads, headdim); returns (batch, seqlen, nheads, headdim)."""
    q, k, v = qkv.unbind(dim=2)
    scores = torch.einsum("bthd,bshd->bhts", q, k / q.shape[-1] ** 0.5)
    if causal:
        scores = scores + torch.full(scores.shape[-2:], -torch.inf, dtype=scores.dtype).triu(1)
    return torch.einsum("bhts,bshd->bthd", scores.softmax(dim=-1), v)
