"""A row with no key returns zeros, and so do its gradients."""

import torch


def masked_attention(q, k, v, allowed_mask):
    """q, k, v: (B, H, T, d); allowed_mask: bool (B, 1, T_q, T_k). Rows with no visible key return zeros."""
    scores = q @ k.mT / q.shape[-1] ** 0.5
    some = allowed_mask.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~allowed_mask, -torch.inf)
    scores = scores.masked_fill(~some, 0.0)
    weights = torch.softmax(scores, dim=-1) * some
    return weights @ v, weights
