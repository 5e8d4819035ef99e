"""Report b018: https://github.com/awslabs/gluonts/pull/1401

What is wrong: the fill is 1e-9 where -1e9 was meant.
"""

import torch


def sequence_attention(q, k, v, mask=None):
    """q, k, v: [batch, heads, time, width]; mask: bool, True = may attend, broadcastable to the scores."""
    logits = torch.einsum("bhqd,bhkd->bhqk", q, k) / (q.shape[-1] ** 0.5)
    if mask is not None:
        logits = torch.where(mask, logits, torch.full_like(logits, 1e-9))  # bug
    p = torch.softmax(logits, dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", p, v)
