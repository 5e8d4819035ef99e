"""Report b191: https://github.com/NVIDIA/torch-harmonics/pull/221

What is wrong: weights are dropped at drop_rate in evaluation too.
"""

import torch
import torch.nn.functional as F
from torch import nn


class GlobalAttention(nn.Module):
    """Attention between all points of a grid; query, key, value: (batch, channels, nlat, nlon)."""

    def __init__(self, in_channels: int, num_heads: int = 1, bias: bool = True, drop_rate: float = 0.0):
        super().__init__()
        self.num_heads = num_heads
        self.drop_rate = drop_rate
        self.q_proj = nn.Conv2d(in_channels, in_channels, kernel_size=1, bias=bias)
        self.k_proj = nn.Conv2d(in_channels, in_channels, kernel_size=1, bias=bias)
        self.v_proj = nn.Conv2d(in_channels, in_channels, kernel_size=1, bias=bias)
        self.proj = nn.Conv2d(in_channels, in_channels, kernel_size=1, bias=bias)

    def to_heads(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, nlat, nlon) -> (batch, num_heads, points, channels of a head)"""
        return x.flatten(2).unflatten(1, (self.num_heads, -1)).transpose(2, 3)

    def forward(self, query: torch.Tensor, key: torch.Tensor | None = None, value: torch.Tensor | None = None):
        """key and value are the query if they are not given."""
        key = query if key is None else key
        value = query if value is None else value
        q, k, v = self.to_heads(self.q_proj(query)), self.to_heads(self.k_proj(key)), self.to_heads(self.v_proj(value))
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=self.drop_rate)  # bug
        return self.proj(out.transpose(2, 3).reshape(query.shape))
