"""Attention over an image in which half of each head turns by the row of a pixel and half by its column."""

import torch
from torch import nn


class AxialRotaryAttention2d(nn.Module):
    """x: (B, C, H, W)"""

    def __init__(self, dim, heads=4, theta=100.0):
        super().__init__()
        self.heads = heads
        self.dim_head = dim // heads
        self.to_q = nn.Conv2d(dim, dim, 1, bias=False)
        self.to_k = nn.Conv2d(dim, dim, 1, bias=False)
        self.to_v = nn.Conv2d(dim, dim, 1, bias=False)
        self.to_out = nn.Conv2d(dim, dim, 1)
        self.theta = theta

    def angles(self, height, width, device):
        """(height * width, dim_head): the row turns the first half, the column the second."""
        half = self.dim_head // 2
        rates = self.theta ** (-torch.arange(0, half, 2, device=device).float() / half)
        rows = torch.arange(height, device=device).float()[:, None] * rates
        columns = torch.arange(width, device=device).float()[:, None] * rates
        rows = rows[:, None].expand(height, width, -1)
        columns = columns[None].expand(height, width, -1)
        return torch.cat((rows, columns), dim=-1).flatten(0, 1).repeat_interleave(2, dim=-1)

    def rotate(self, x, angles):  # (B, heads, N, dim_head)
        swapped = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
        return x * angles.cos().to(x.dtype) + swapped * angles.sin().to(x.dtype)

    def forward(self, x):
        B, _, height, width = x.shape
        q, k, v = (
            f(x).view(B, self.heads, self.dim_head, height * width).transpose(2, 3)
            for f in (self.to_q, self.to_k, self.to_v)
        )
        angles = self.angles(height, width, x.device)
        q, k = self.rotate(q, angles), self.rotate(k, angles)
        weights = torch.softmax(q @ k.transpose(2, 3) * self.dim_head**-0.5, dim=-1)
        out = (weights @ v).transpose(2, 3).reshape(B, -1, height, width)
        return self.to_out(out)
