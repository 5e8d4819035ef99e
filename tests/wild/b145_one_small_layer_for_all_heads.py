"""Report b145: https://github.com/MarcoMeter/episodic-transformer-memory-ppo/pull/22

What is wrong: the input is cut into heads before the projection, so one small layer serves every head.
"""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """Attention of an agent to its memory; values, keys, query: (batch, length, embed_dim)."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads, self.head_size = embed_dim, num_heads, embed_dim // num_heads
        width = self.head_size  # bug
        self.values = nn.Linear(width, width, bias=False)
        self.keys = nn.Linear(width, width, bias=False)
        self.queries = nn.Linear(width, width, bias=False)
        self.fc_out = nn.Linear(embed_dim, embed_dim)

    def project(self, layer, x):
        """(batch, length, embed_dim) -> (batch, length, num_heads, head_size)"""
        pieces = x.unflatten(-1, (-1, layer.in_features))
        return layer(pieces).reshape(*x.shape[:2], self.num_heads, self.head_size)

    def forward(self, values, keys, query, mask=None):
        """mask: (batch, length of keys), 0 = an empty place of the memory, 1 = a step"""
        values, keys, query = (
            self.project(layer, x)
            for layer, x in ((self.values, values), (self.keys, keys), (self.queries, query))
        )
        energy = torch.einsum("nqhd,nkhd->nhqk", query, keys)
        if mask is not None:
            energy = energy.masked_fill(mask[:, None, None, :] == 0, float("-inf"))
        attention = torch.softmax(energy / self.head_size**0.5, dim=3)
        return self.fc_out(torch.einsum("nhqk,nkhd->nqhd", attention, values).flatten(2))
