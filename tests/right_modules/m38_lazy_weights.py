"""The width of the tokens is learned from the first call."""

import torch
from torch import nn


class LazyMultiHeadAttention(nn.Module):
    """forward(q, k, v, mask): all (B, T, any width); mask: bool (B, T_q, T_k), True = take part."""

    def __init__(self, num_hiddens, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.dropout = nn.Dropout(dropout)
        self.W_q = nn.LazyLinear(num_hiddens)
        self.W_k = nn.LazyLinear(num_hiddens)
        self.W_v = nn.LazyLinear(num_hiddens)
        self.W_o = nn.LazyLinear(num_hiddens)

    def split(self, x):
        return x.reshape(*x.shape[:2], self.num_heads, -1).permute(0, 2, 1, 3)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.split(self.W_q(q)), self.split(self.W_k(k)), self.split(self.W_v(v))
        energy = torch.matmul(q, k.permute(0, 1, 3, 2)) / (q.shape[-1] ** 0.5)
        if mask is not None:
            energy = energy.masked_fill(mask[:, None] == 0, -1e10)
        x = torch.matmul(self.dropout(torch.softmax(energy, dim=-1)), v)
        x = x.permute(0, 2, 1, 3).flatten(2)
        return self.W_o(x)
