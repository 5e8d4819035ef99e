"""Report b038: https://github.com/hyunwoongko/transformer/pull/40

What is wrong: the padding mask is unsqueezed to (B, 1, T, 1): it blanks padded queries, and real queries still see padded keys.
"""

import math

import torch


def encoder_self_attention(q, k, v, src_mask):
    """q, k, v: (batch, head, len, d); src_mask: (batch, len), True for real tokens, False for padding."""
    score = q @ k.transpose(2, 3) / math.sqrt(q.size(3))
    score = score.masked_fill(~src_mask[:, None, :, None], -10000.0)  # bug
    return torch.softmax(score, dim=-1) @ v
