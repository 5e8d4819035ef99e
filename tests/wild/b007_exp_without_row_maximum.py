"""Report b007: https://github.com/pytorch/executorch/pull/18407

What is wrong: exp is taken of the bare scores; it overflows as soon as one of them is large.
"""

import torch


def fallback_attention(q, k, v, attn_mask=None):
    """Attention for devices without a softmax kernel.

    q, k, v: [B, H, T, d]
    attn_mask: bool, broadcastable to [B, H, T_q, T_k], True = takes part in attention
    """
    scores = torch.matmul(q, k.mT) * (q.shape[-1] ** -0.5)
    if attn_mask is not None:
        scores = torch.where(attn_mask, scores, -torch.inf)
    exps = torch.exp(scores)  # bug
    probs = exps / exps.sum(dim=-1, keepdim=True)
    return torch.matmul(probs, v)
