"""Report b204: https://github.com/rexrex9/nlp_torchtext/pull/2

What is wrong: the encoder output asks and the target answers; it has to be the other way round.
"""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """Attention of q to k and v."""

    def __init__(self, e_dim, n_heads):
        super().__init__()
        self.n_heads, self.h_dim = n_heads, e_dim // n_heads
        self.W_Q = nn.Linear(e_dim, e_dim, bias=False)
        self.W_K = nn.Linear(e_dim, e_dim, bias=False)
        self.W_V = nn.Linear(e_dim, e_dim, bias=False)
        self.W_O = nn.Linear(e_dim, e_dim, bias=False)

    def forward(self, q, k, v):
        q, k, v = self.W_Q(q), self.W_K(k), self.W_V(v)
        q, k, v = (x.view(x.shape[0], -1, self.n_heads, self.h_dim).transpose(1, 2) for x in (q, k, v))
        weights = torch.softmax(q @ k.transpose(-1, -2) / self.h_dim**0.5, dim=-1)
        return self.W_O((weights @ v).transpose(1, 2).flatten(2))


class DecoderCrossAttention(nn.Module):
    """Cross-attention of a decoder layer: the target looks at the encoder output."""

    def __init__(self, e_dim, n_heads):
        super().__init__()
        self.attention = MultiHeadAttention(e_dim, n_heads)

    def forward(self, x, encoder_output):
        """x: (batch, target length, e_dim)   encoder_output: (batch, source length, e_dim)

        Returns (batch, target length, e_dim).
        """
        return self.attention(encoder_output, x, x)  # bug
