"""Causal self-attention as a module without weights: it takes heads that are already projected."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class CausalAttention(nn.Module):
    """Causal scaled dot-product attention: each position sees itself and earlier positions.

    forward takes q (B, H, T, d), k (B, H, T, d), v (B, H, T, d_v) and key_padding_mask (B, T), bool or int of 0 and 1:
    True or 1 = padding, a key that nobody may look at.
    It returns output (B, H, T, d_v) and weights (B, H, T, T), one map per head.
    A query that may look nowhere returns zeros.
    """

    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v, key_padding_mask=None):
        T, d = q.size(2), q.size(3)
        blocked = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)
        blocked = blocked[None, None]
        if key_padding_mask is not None:
            blocked = blocked | key_padding_mask[:, None, None, :].bool()
        nowhere = blocked.all(dim=-1, keepdim=True)

        scores = q.matmul(k.transpose(2, 3))
        scores = scores.div(math.sqrt(d))
        scores = scores.masked_fill(blocked & ~nowhere, float("-inf"))
        weights = scores.softmax(dim=-1)
        weights = weights.masked_fill(nowhere, 0.0)
        weights = F.dropout(weights, self.dropout, self.training)
        output = weights.matmul(v)
        return output, weights
