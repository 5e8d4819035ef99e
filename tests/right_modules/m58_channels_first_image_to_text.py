"""Pixels of an image (B, C, H, W) look at the words of a text (B, T, E)."""

import torch.nn.functional as F
from torch import nn


class ImageTextCrossAttention(nn.Module):
    def __init__(self, channels: int, embed_dim: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.to_q = nn.Conv2d(channels, channels, 1)
        self.to_k = nn.Linear(embed_dim, channels)
        self.to_v = nn.Linear(embed_dim, channels)
        self.to_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x, context, context_mask=None):
        """x: (B, C, H, W); context: (B, T, embed_dim); context_mask: bool (B, T), True = a real word"""
        B, C, H, W = x.shape
        q = self.to_q(x).view(B, self.n_heads, C // self.n_heads, H * W).transpose(2, 3)
        k = self.to_k(context).view(B, -1, self.n_heads, C // self.n_heads).transpose(1, 2)
        v = self.to_v(context).view(B, -1, self.n_heads, C // self.n_heads).transpose(1, 2)
        scores = q @ k.transpose(2, 3) / (C // self.n_heads) ** 0.5
        if context_mask is not None:
            scores = scores.masked_fill(~context_mask[:, None, None, :], float("-inf"))
        out = F.softmax(scores, dim=-1) @ v
        return self.to_out(out.transpose(2, 3).reshape(B, C, H, W))
