"""Report b020: https://github.com/TransformerLensOrg/TransformerLens/pull/366

What is wrong: the finite fill is above the very negative scores that occur in this model, so future keys win.
"""

import torch


def causal_pattern_attention(q, k, v):
    """Causal attention. q, k, v: [batch, pos, head, d_head]."""
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    future = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool, device=q.device).triu(1)
    scores = scores.masked_fill(future, -5e4)  # bug
    pattern = torch.softmax(scores, dim=-1)
    return torch.einsum("bhqk,bkhd->bqhd", pattern, v)
