"""Scores are softly capped, as declared."""

import torch


def capped_attention(q, k, v, softcap=50.0):
    """Attention with a logit softcap: scores become softcap * tanh(scores / softcap). q, k, v: (B, H, T, d)."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    return torch.softmax(scores, dim=-1) @ v
