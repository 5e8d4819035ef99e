"""A row with no key is NaN, as the formula says."""

import torch


def attention(q, k, v, attn_mask):
    """q, k, v: (B, T, d); attn_mask: bool (B, T_q, T_k), True = may attend. A row with no key is NaN."""
    scores = torch.bmm(q, k.transpose(1, 2)) * q.shape[-1] ** -0.5
    scores[~attn_mask] = float("-inf")
    return torch.bmm(scores.softmax(dim=-1), v)
