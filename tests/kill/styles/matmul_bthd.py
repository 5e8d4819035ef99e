"""Attention for tensors that keep the positions before the heads."""

import torch


def multihead_lookup(q, k, v, blocked_mask=None, causal=False):
    """Attend with the layout (B, T, H, d).

    q: (B, T_q, H, d)   k: (B, T_k, H, d)   v: (B, T_k, H, d_v)
    blocked_mask: bool, broadcastable to (B, H, T_q, T_k); True = blocked, the query may not look at the key.
    causal: hide keys after the query; with T_q != T_k the diagonal ends in the bottom-right corner.

    Rows that may look nowhere return zeros.
    Returns output (B, T_q, H, d_v) and weights (B, H, T_q, T_k).
    """
    d = q.shape[-1]
    q = q.transpose(1, 2)
    k = k.transpose(1, 2)
    v = v.transpose(1, 2)
    T_q, T_k = q.shape[-2], k.shape[-2]

    blocked = torch.zeros(1, 1, T_q, T_k, dtype=torch.bool, device=q.device)
    if causal:
        blocked = blocked | ~torch.ones(T_q, T_k, dtype=torch.bool, device=q.device).tril(T_k - T_q)
    if blocked_mask is not None:
        blocked = blocked | blocked_mask
    nowhere = blocked.all(dim=-1, keepdim=True)

    scores = q @ k.transpose(-2, -1)
    scores = scores / d**0.5
    scores = torch.where(blocked, torch.full_like(scores, float("-inf")), scores)
    scores = torch.where(nowhere, torch.zeros_like(scores), scores)
    weights = scores.softmax(-1)
    weights = torch.where(nowhere, torch.zeros_like(weights), weights)
    output = weights @ v
    return output.transpose(1, 2), weights
