"""Attention over the pixels of an image, narrow queries and keys, a learned gate, the input added."""

import torch
import torch.nn as nn


class SelfAttention2d(nn.Module):
    """Self-attention of a GAN: one head; the scores are not scaled; out = gamma * attention(x) + x."""

    def __init__(self, in_channels: int, reduction: int = 4):
        super().__init__()
        inner = in_channels // reduction
        self.query_conv = nn.Conv2d(in_channels, inner, kernel_size=1)
        self.key_conv = nn.Conv2d(in_channels, inner, kernel_size=1)
        self.value_conv = nn.Conv2d(in_channels, in_channels, kernel_size=1)
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        """x: (B, C, H, W)"""
        B, C, H, W = x.size()
        proj_query = self.query_conv(x).view(B, -1, H * W).permute(0, 2, 1)
        proj_key = self.key_conv(x).view(B, -1, H * W)
        energy = torch.bmm(proj_query, proj_key)  # (B, N queries, N keys)
        attention = torch.softmax(energy, dim=-1)
        proj_value = self.value_conv(x).view(B, -1, H * W)
        out = torch.bmm(proj_value, attention.permute(0, 2, 1)).view(B, C, H, W)
        return self.gamma * out + x
