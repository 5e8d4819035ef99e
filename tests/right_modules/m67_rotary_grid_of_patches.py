"""Attention over the patches of an image of one size, with tables of rotary positions for its grid."""

import torch
import torch.nn.functional as F
from torch import nn


class PatchAttention(nn.Module):
    """x: (B, grid_size * grid_size, dim), patches row by row."""

    def __init__(self, dim: int, num_heads: int, grid_size: int = 4):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        quarter = self.head_dim // 4
        rates = 100.0 ** (-torch.arange(quarter).float() / quarter)
        places = torch.arange(grid_size).float()
        rows, columns = torch.meshgrid(places, places, indexing="ij")
        angles = torch.cat((rows.reshape(-1, 1) * rates, columns.reshape(-1, 1) * rates), dim=-1).tile(2)
        self.register_buffer("rope_cos", angles.cos(), persistent=False)
        self.register_buffer("rope_sin", angles.sin(), persistent=False)

    def rotate(self, x):  # (B, H, N, d)
        a, b = x.chunk(2, dim=-1)
        return x * self.rope_cos + torch.cat((-b, a), dim=-1) * self.rope_sin

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v)
        return self.proj(x.transpose(1, 2).reshape(B, N, C))
