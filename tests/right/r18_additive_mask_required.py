"""A required additive mask."""

import torch


def attention(q, k, v, mask):
    """q, k, v: (B, H, T, d); mask: float, added to the scores, 0 = visible, -inf = hidden."""
    scores = torch.matmul(q, k.transpose(2, 3)) / q.shape[-1] ** 0.5
    scores = scores + mask.to(scores.dtype)
    return torch.matmul(scores.softmax(dim=-1), v)
