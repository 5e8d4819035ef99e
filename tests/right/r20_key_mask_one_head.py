"""A (B, T_k) mask of valid keys for one head."""

import torch


def pool(q, k, v, valid):
    """q, k, v: (B, T, d); valid: (B, T_k) bool, True = a valid position."""
    scores = torch.baddbmm(torch.zeros(1, 1, 1, dtype=q.dtype), q, k.mT, beta=0, alpha=q.shape[-1] ** -0.5)
    scores = scores.masked_fill(valid.unsqueeze(1).logical_not(), -torch.inf)
    return scores.softmax(2) @ v
