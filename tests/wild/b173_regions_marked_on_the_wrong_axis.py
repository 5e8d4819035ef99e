"""Report b173: https://github.com/zsyOAOA/ResShift/issues/81

What is wrong: the regions of the rolled image are written one axis too early, so opposite edges of the image see each other.
"""

import torch
from torch import nn


class ShiftedWindowAttention(nn.Module):
    """Attention within windows of an image that was rolled by shift_size; x: (B, C, H, W).

    A token sees the tokens of its window that were its neighbours before the roll, and no others.
    """

    def __init__(self, dim, num_heads, window_size=4, shift_size=2):
        super().__init__()
        self.num_heads, self.window_size, self.shift_size = num_heads, window_size, shift_size
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def partition(self, x):
        """(B, C, H, W) -> (B, number of windows, window_size ** 2, C)"""
        B, C, H, W = x.shape
        w = self.window_size
        return x.view(B, C, H // w, w, W // w, w).permute(0, 2, 4, 3, 5, 1).reshape(B, -1, w * w, C)

    def calculate_mask(self, H, W):
        """(number of windows, window_size ** 2, window_size ** 2), True = of different regions"""
        img_mask = torch.zeros((1, 1, H, W))
        slices = (
            slice(0, -self.window_size),
            slice(-self.window_size, -self.shift_size),
            slice(-self.shift_size, None),
        )
        for row, h in enumerate(slices):
            for column, w in enumerate(slices):
                img_mask[:, h, w, :] = 3 * row + column  # bug
        region = self.partition(img_mask).squeeze(0).squeeze(-1)
        return region[:, :, None] != region[:, None, :]

    def forward(self, x):
        B, C, H, W = x.shape
        shifted = torch.roll(x, shifts=(-self.shift_size, -self.shift_size), dims=(2, 3))
        windows = self.partition(shifted)
        q, k, v = (t.unflatten(-1, (self.num_heads, -1)).transpose(2, 3) for t in self.qkv(windows).chunk(3, dim=-1))
        attn = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        attn = attn.masked_fill(self.calculate_mask(H, W)[None, :, None], -100.0).softmax(dim=-1)
        out = self.proj((attn @ v).transpose(2, 3).flatten(3))
        w = self.window_size
        out = out.view(B, H // w, W // w, w, w, C).permute(0, 5, 1, 3, 2, 4).reshape(B, C, H, W)
        return torch.roll(out, shifts=(self.shift_size, self.shift_size), dims=(2, 3))
