"""Dropout on the weights, off unless training."""

import torch.nn.functional as F


def attention(q, k, v, dropout_p=0.0, training=False):
    """q, k, v: (B, H, T, d); dropout_p acts on the weights, in training only."""
    attn = F.softmax(q.matmul(k.transpose(-2, -1)).div(q.size(-1) ** 0.5), dim=-1)
    attn = F.dropout(attn, p=dropout_p, training=training)
    return attn.matmul(v)
