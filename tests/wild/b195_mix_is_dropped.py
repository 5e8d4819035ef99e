"""Report b195: https://github.com/nikhilbarhate99/min-decision-transformer/issues/2

What is wrong: dropout falls on the mixed values, not on the weights.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class MaskedCausalAttention(nn.Module):
    """Causal attention over the steps of an episode; x: (B, T, h_dim). drop_p: rate at which weights are dropped."""

    def __init__(self, h_dim, max_T, n_heads, drop_p):
        super().__init__()
        self.n_heads = n_heads
        self.max_T = max_T
        self.q_net = nn.Linear(h_dim, h_dim)
        self.k_net = nn.Linear(h_dim, h_dim)
        self.v_net = nn.Linear(h_dim, h_dim)
        self.proj_net = nn.Linear(h_dim, h_dim)
        self.att_drop = nn.Dropout(drop_p)
        self.register_buffer("mask", torch.tril(torch.ones(max_T, max_T)).view(1, 1, max_T, max_T))

    def forward(self, x):
        B, T, C = x.shape
        N, D = self.n_heads, C // self.n_heads
        q = self.q_net(x).view(B, T, N, D).transpose(1, 2)
        k = self.k_net(x).view(B, T, N, D).transpose(1, 2)
        v = self.v_net(x).view(B, T, N, D).transpose(1, 2)
        weights = q @ k.transpose(2, 3) / math.sqrt(D)
        weights = weights.masked_fill(self.mask[..., :T, :T] == 0, float("-inf"))
        normalized_weights = F.softmax(weights, dim=-1)
        attention = self.att_drop(normalized_weights @ v)  # bug
        return self.proj_net(attention.transpose(1, 2).contiguous().view(B, T, C))
