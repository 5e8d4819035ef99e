"""Single-head attention with a caller's scale."""

import math

import torch


def scaled_attention(q, k, v, key_mask=None, scale=None):
    """Attention over (B, T, d) tensors.

    q: (B, T_q, d)   k: (B, T_k, d)   v: (B, T_k, d_v)
    key_mask: bool (B, T_k); True = a real token that may be attended to, False = padding.
    scale: factor on the scores; 1 / sqrt(d) when None.

    A sample without any key returns zeros.
    Returns output (B, T_q, d_v) and weights (B, T_q, T_k).
    """
    if scale is None:
        scale = q.shape[-1] ** -0.5
    scores = torch.bmm(q, k.transpose(1, 2))
    scores = scores * scale
    if key_mask is not None:
        hidden = ~key_mask[:, None, :]
        empty = hidden.all(dim=-1, keepdim=True)
        scores = scores.masked_fill(hidden & ~empty, -math.inf)
        weights = scores.softmax(dim=2)
        weights = weights.masked_fill(empty, 0.0)
    else:
        weights = scores.softmax(dim=2)
    return torch.bmm(weights, v), weights
