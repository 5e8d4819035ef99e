"""The softmax runs in float32 and is cast back; the output comes heads last, the inputs heads first."""

import torch
from torch import nn


def eager_attention_forward(query, key, value, attention_mask=None, scaling=None, dropout=0.0, **kwargs):
    """query, key, value: (batch, heads, tokens, dim); attention_mask: additive, added to the scores.

    Returns (batch, tokens, heads, dim) and the weights (batch, heads, tokens, tokens).
    """
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    weights = torch.matmul(query, key.transpose(2, 3)) * scaling
    if attention_mask is not None:
        weights = weights + attention_mask.to(weights.dtype)
    weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(query.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=False)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights
