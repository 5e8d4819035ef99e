"""Causal self-attention with linear biases (ALiBi) in place of positions, Press et al. 2022, arXiv 2108.12409."""

import math

import torch
from torch import nn


class AlibiSelfAttention(nn.Module):
    """Causal self-attention that favours near tokens: head h subtracts slope_h times the distance.

    x: (B, T, d_model)
    padding_mask: bool (B, T); True = padding, a token that nobody may look at.

    The slopes are 2 ** (-8 (h + 1) / num_heads). A query that may look nowhere mixes no values.
    Returns (B, T, d_model).
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.proj = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(dropout)
        slopes = 2.0 ** (-8.0 * torch.arange(1, num_heads + 1) / num_heads)
        self.register_buffer("slopes", slopes.view(num_heads, 1, 1), persistent=False)

    def heads(self, x):
        """(B, T, d_model) -> (B, num_heads, T, d_head)"""
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def forward(self, x, padding_mask=None):
        T = x.size(1)
        q = self.heads(self.query(x))
        k = self.heads(self.key(x))
        v = self.heads(self.value(x))
        position = torch.arange(T, device=x.device)
        distance = position[:, None] - position[None, :]
        blocked = distance < 0
        if padding_mask is not None:
            blocked = blocked | padding_mask[:, None, None, :]
        nowhere = blocked.all(dim=-1, keepdim=True)

        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        scores = scores / math.sqrt(self.d_head)
        scores = scores - self.slopes.to(scores.dtype) * distance
        scores = scores.masked_fill(blocked & ~nowhere, -math.inf)
        weights = torch.softmax(scores, dim=-1)
        weights = weights.masked_fill(nowhere, 0.0)
        weights = self.drop(weights)
        mixed = torch.einsum("bhqk,bhkd->bqhd", weights, v)
        return self.proj(mixed.flatten(2))
