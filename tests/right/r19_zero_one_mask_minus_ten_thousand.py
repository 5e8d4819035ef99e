"""A 0/1 mask becomes a bias of -10000. Trap f05."""

import torch


def self_attention(query_layer, key_layer, value_layer, attention_mask):
    """query_layer, key_layer, value_layer: (batch, heads, seq, size); attention_mask: (batch, seq), 1 for real tokens."""
    extended = (1.0 - attention_mask[:, None, None, :].to(query_layer.dtype)) * -10000.0
    scores = torch.matmul(query_layer, key_layer.transpose(-1, -2)) / query_layer.shape[-1] ** 0.5
    probs = torch.softmax(scores + extended, dim=-1)
    return torch.matmul(probs, value_layer), probs
