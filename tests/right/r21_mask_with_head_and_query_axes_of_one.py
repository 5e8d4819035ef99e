"""A (B, 1, 1, T_k) mask."""

import math

import torch


def scaled_attention(q, k, v, src_mask=None):
    """q, k, v: (B, H, T, d); src_mask: (B, 1, 1, T_k) of 0 and 1, 0 = padding."""
    energy = torch.matmul(q, k.permute(0, 1, 3, 2)) / math.sqrt(q.shape[-1])
    if src_mask is not None:
        energy = energy.masked_fill(src_mask == 0, -1e4)
    attention = torch.softmax(energy, dim=-1)
    return torch.matmul(attention, v)
