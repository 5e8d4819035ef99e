"""Report b158: https://github.com/Tencent/ncnn/issues/6833

What is wrong: the angles of the rows, the first half of the table, are used for the columns' half of the features too.
"""

import torch
import torch.nn.functional as F
from torch import nn


class VisionAttention(nn.Module):
    """Attention between the patches of an image with 2-D rotary positions.

    The first half of a head's features turns with the row of the patch, the second half with its column.
    """

    def __init__(self, dim, num_heads, grid_width=3):
        super().__init__()
        self.num_heads, self.grid_width = num_heads, grid_width
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        quarter = dim // num_heads // 4
        self.register_buffer("inv_freq", 100.0 ** -(torch.arange(quarter) / quarter))

    def angles(self, num_patches):
        """(num_patches, head_dim / 2): those of the row, then those of the column"""
        patch = torch.arange(num_patches)
        rows, columns = patch // self.grid_width, patch % self.grid_width
        return torch.cat((torch.outer(rows, self.inv_freq), torch.outer(columns, self.inv_freq)), dim=-1)

    def rotate(self, x):
        by_row, by_column = self.angles(x.shape[-2]).chunk(2, dim=-1)
        first, second = x.chunk(2, dim=-1)
        halves = ((first, by_row), (second, by_row))  # bug
        turned = []
        for half, angle in halves:
            x1, x2 = half.chunk(2, dim=-1)
            turned += [x1 * angle.cos() - x2 * angle.sin(), x2 * angle.cos() + x1 * angle.sin()]
        return torch.cat(turned, dim=-1)

    def forward(self, x):
        """x: (batch, patches, dim), the patches row by row"""
        q, k, v = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        x = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v)
        return self.proj(x.transpose(1, 2).flatten(2))
