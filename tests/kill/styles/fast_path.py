"""Attention that takes PyTorch's fused call unless the weights are wanted."""

import math

import torch
import torch.nn.functional as F


def attend(q, k, v, allowed_mask=None, need_weights=False):
    """Attend with the layout (B, T, H, d).

    q: (B, T_q, H, d)   k: (B, T_k, H, d)   v: (B, T_k, H, d_v)
    allowed_mask: bool, broadcastable to (B, H, T_q, T_k); True = may attend.
    need_weights: also return the weights (B, H, T_q, T_k); the output is the same.

    A query that may look nowhere returns zeros. Returns output (B, T_q, H, d_v), or (output, weights).
    """
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    if not need_weights:
        output = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed_mask)
        return output.transpose(1, 2)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if allowed_mask is not None:
        empty = ~allowed_mask.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~(allowed_mask | empty), -math.inf)
        weights = scores.softmax(dim=-1).masked_fill(empty, 0.0)
    else:
        weights = scores.softmax(dim=-1)
    output = weights @ v
    return output.transpose(1, 2), weights
