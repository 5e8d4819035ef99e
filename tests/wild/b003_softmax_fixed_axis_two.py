"""Report b003: https://github.com/FudanNLP/fastNLP/issues/254

What is wrong: axis 2 is written out: the keys of (B, T, T) scores, but the queries of (B, H, T, T) scores.
"""

import math

import torch


def dot_attention(query, key, value):
    """Dot-product attention for one head or for many.

    query, key, value: (B, T, d), or (B, H, T, d) with several heads
    """
    scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.size(-1))
    weights = torch.softmax(scores, dim=2)  # bug
    return torch.matmul(weights, value), weights
