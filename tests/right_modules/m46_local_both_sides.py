"""Long documents: each token sees its neighbours, as many before as after."""

import math

import torch
from torch import nn


class LocalSelfAttention(nn.Module):
    """Every query sees the keys at most `window_size` away on either side; pads are hidden besides."""

    def __init__(self, hidden_size: int, num_heads: int, window_size: int):
        super().__init__()
        self.num_heads, self.window_size = num_heads, window_size
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states, padding_mask=None):
        """padding_mask: bool (batch, length), True at pads"""
        B, T, C = hidden_states.shape
        q = self.query(hidden_states).view(B, T, self.num_heads, -1).transpose(1, 2)
        k = self.key(hidden_states).view(B, T, self.num_heads, -1).transpose(1, 2)
        v = self.value(hidden_states).view(B, T, self.num_heads, -1).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(C // self.num_heads)
        at = torch.arange(T, device=hidden_states.device)
        hidden = (at[:, None] - at[None, :]).abs() > self.window_size
        if padding_mask is not None:
            hidden = hidden | padding_mask[:, None, None, :]
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        context = torch.matmul(scores.softmax(dim=-1), v)
        return self.dense(context.transpose(1, 2).reshape(B, T, C))
