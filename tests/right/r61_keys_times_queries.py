"""Column-major: keys times queries, and the softmax over the axis of the keys. Trap f20."""

import torch


def attention(q, k, v):
    """q, k, v: (B, T, d)."""
    att = k @ q.transpose(1, 2) / q.shape[2] ** 0.5  # (B, T_k, T_q)
    att = torch.softmax(att, dim=1)
    return att.transpose(1, 2) @ v
