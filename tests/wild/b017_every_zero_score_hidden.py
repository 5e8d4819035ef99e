"""Report b017: https://github.com/duoan/TorchCode/issues/17

What is wrong: a product with a triangle is turned into -inf wherever it is 0, also where a visible score is 0.
"""

import math

import torch


def causal_attention(Q, K, V):
    """Causal self-attention: a token sees itself and what came before. Q, K, V: (B, T, d)."""
    T = Q.shape[1]
    scores = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(Q.shape[2])
    scores = scores * torch.tril(torch.ones(T, T, dtype=Q.dtype))
    scores = scores.masked_fill(scores == 0, float("-inf"))  # bug
    return torch.bmm(torch.softmax(scores, dim=-1), V)
