"""Self-attention, or attention over the encoder's states where they are given; heads go to the batch."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, query_dim, cross_attention_dim=None, heads=8, dim_head=64, dropout=0.0, bias=False):
        super().__init__()
        inner_dim = dim_head * heads
        cross_attention_dim = cross_attention_dim if cross_attention_dim is not None else query_dim
        self.heads = heads
        self.scale = dim_head**-0.5
        self.to_q = nn.Linear(query_dim, inner_dim, bias=bias)
        self.to_k = nn.Linear(cross_attention_dim, inner_dim, bias=bias)
        self.to_v = nn.Linear(cross_attention_dim, inner_dim, bias=bias)
        self.to_out = nn.ModuleList([nn.Linear(inner_dim, query_dim), nn.Dropout(dropout)])

    def head_to_batch_dim(self, tensor):
        b, n, c = tensor.shape
        tensor = tensor.reshape(b, n, self.heads, c // self.heads).permute(0, 2, 1, 3)
        return tensor.reshape(b * self.heads, n, c // self.heads)

    def batch_to_head_dim(self, tensor):
        bh, n, d = tensor.shape
        tensor = tensor.reshape(bh // self.heads, self.heads, n, d).permute(0, 2, 1, 3)
        return tensor.reshape(bh // self.heads, n, d * self.heads)

    def forward(self, hidden_states, encoder_hidden_states=None, encoder_attention_mask=None):
        """encoder_attention_mask: bool (batch, source length), True = keep, False = padding"""
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        query, key, value = (
            self.head_to_batch_dim(t) for t in (self.to_q(hidden_states), self.to_k(source), self.to_v(source))
        )
        empty = torch.empty(query.shape[0], query.shape[1], key.shape[1], dtype=query.dtype)
        scores = torch.baddbmm(empty, query, key.transpose(-1, -2), beta=0, alpha=self.scale)
        if encoder_attention_mask is not None:
            bias = (1 - encoder_attention_mask.to(scores.dtype)) * -10000.0
            scores = scores + bias[:, None].repeat_interleave(self.heads, dim=0)
        hidden_states = self.batch_to_head_dim(torch.bmm(scores.softmax(dim=-1), value))
        return self.to_out[1](self.to_out[0](hidden_states))
