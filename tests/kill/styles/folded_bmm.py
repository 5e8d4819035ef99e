"""Attention with the heads folded into the batch: one bmm for all of them."""

import math

import torch


def folded_attention(q, k, v, allowed_mask=None):
    """Attend with B * H problems side by side.

    q: (B, H, T_q, d)   k: (B, H, T_k, d)   v: (B, H, T_k, d_v)
    allowed_mask: (B, T_q, T_k) bool, or int of 0 and 1, the same for every head; True or 1 = may attend.

    A query that may look nowhere returns zeros. Returns (B, H, T_q, d_v).
    """
    B, H, T_q, d = q.shape
    T_k, d_v = v.shape[-2:]
    q = q.reshape(B * H, T_q, d)
    k = k.reshape(B * H, T_k, d)
    v = v.reshape(B * H, T_k, d_v)

    scores = torch.bmm(q, k.transpose(1, 2))
    scores = scores / math.sqrt(d)
    empty = torch.zeros(B * H, T_q, 1, dtype=torch.bool, device=q.device)
    if allowed_mask is not None:
        hidden = allowed_mask == 0
        hidden = hidden.repeat_interleave(H, dim=0)
        empty = hidden.all(dim=2, keepdim=True)
        scores = scores.masked_fill(hidden & ~empty, -math.inf)
    weights = torch.softmax(scores, dim=2)
    weights = weights.masked_fill(empty, 0.0)
    output = torch.bmm(weights, v)
    return output.reshape(B, H, T_q, d_v)
