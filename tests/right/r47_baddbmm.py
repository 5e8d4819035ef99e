"""The scale rides on the batched product."""

import torch


def get_attention_scores_and_mix(query, key, value, attention_mask=None):
    """query: (B, T_q, d)   key, value: (B, T_k, d); attention_mask: additive (B, T_q, T_k)."""
    if attention_mask is None:
        bias, beta = query.new_empty(query.shape[0], query.shape[1], key.shape[1]), 0
    else:
        bias, beta = attention_mask.to(query.dtype), 1
    scores = torch.baddbmm(bias, query, key.transpose(-1, -2), beta=beta, alpha=query.shape[-1] ** -0.5)
    return torch.bmm(scores.softmax(dim=-1), value)
