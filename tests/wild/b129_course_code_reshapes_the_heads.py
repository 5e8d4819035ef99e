"""Report b129: https://github.com/ajhalthor/Transformer-Neural-Network/pull/4

What is wrong: the heads are in front of the positions when the result is reshaped to one vector per position.
"""

import math

import torch
from torch import nn


class MultiHeadCrossAttention(nn.Module):
    """Attention of the target y to the source x."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.kv_layer = nn.Linear(d_model, 2 * d_model)
        self.q_layer = nn.Linear(d_model, d_model)
        self.linear_layer = nn.Linear(d_model, d_model)

    def forward(self, x, y, mask=None):
        """x: (batch, source_length, d_model), the encoder's output   y: (batch, target_length, d_model)

        mask: (target_length, source_length) additive, 0 = may attend, -inf = may not
        """
        batch_size, source_length, _ = x.size()
        target_length = y.size(1)
        kv = self.kv_layer(x).reshape(batch_size, source_length, self.num_heads, 2 * self.head_dim)
        q = self.q_layer(y).reshape(batch_size, target_length, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        k, v = kv.permute(0, 2, 1, 3).chunk(2, dim=-1)
        scaled = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_dim)
        if mask is not None:
            scaled = scaled + mask
        values = torch.matmul(torch.softmax(scaled, dim=-1), v)
        values = values.reshape(batch_size, target_length, self.d_model)  # bug
        return self.linear_layer(values)
