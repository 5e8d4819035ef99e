"""A learned bias for every pair of places in a window: the number of tokens is that of the table."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, key_dim, num_heads=8, attn_ratio=4.0, resolution=(14, 14)):
        super().__init__()
        self.num_heads = num_heads
        self.scale = key_dim**-0.5
        self.parts = [key_dim, key_dim, int(attn_ratio * key_dim)]
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, num_heads * sum(self.parts))
        self.proj = nn.Linear(num_heads * self.parts[2], dim)
        rows, columns = resolution
        places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
        apart = (places[:, None] - places[None]).abs()
        self.register_buffer("bias_index", apart[..., 0] * columns + apart[..., 1], persistent=False)
        self.attention_biases = nn.Parameter(torch.zeros(num_heads, rows * columns))

    def forward(self, x):
        B, N, _ = x.shape
        qkv = self.qkv(self.norm(x)).view(B, N, self.num_heads, -1).transpose(1, 2)
        q, k, v = qkv.split(self.parts, dim=-1)
        scores = (q @ k.transpose(-2, -1)) * self.scale + self.attention_biases[:, self.bias_index]
        return self.proj((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(B, N, -1))
