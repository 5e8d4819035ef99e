"""Without a mask the rule is causal."""

import torch


def decoder_attention(q, k, v, mask=None):
    """q, k, v: (B, H, T, d); mask: bool (T_q, T_k), True = visible; None means causal."""
    if mask is None:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v
