"""Report b192: https://github.com/karpathy/ng-video-lecture/issues/30

What is wrong: scores are dropped, which makes a hidden one NaN and a dropped one an ordinary 0.
"""

import torch
from torch import nn
from torch.nn import functional as F


class MultiHeadAttention(nn.Module):
    """Causal attention of a small language model; x: (B, T, n_embd)."""

    def __init__(self, n_embd, n_head, block_size, dropout=0.2):
        super().__init__()
        self.n_head = n_head
        self.key = nn.Linear(n_embd, n_embd, bias=False)
        self.query = nn.Linear(n_embd, n_embd, bias=False)
        self.value = nn.Linear(n_embd, n_embd, bias=False)
        self.proj = nn.Linear(n_embd, n_embd)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (layer(x).view(B, T, self.n_head, -1).transpose(1, 2) for layer in (self.query, self.key, self.value))
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5  # (B, n_head, T, T)
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = F.softmax(self.dropout(wei), dim=-1)  # bug
        out = (wei @ v).transpose(1, 2).reshape(B, T, C)
        return self.proj(out)
