"""Report b140: https://github.com/awslabs/slapo/pull/46

What is wrong: the three weights are fused per head (q0 k0 v0 q1 k1 v1 ...), and the result is cut like q | k | v.
"""

import torch
import torch.nn.functional as F
from torch import nn


class FusedSelfAttention(nn.Module):
    """Self-attention that multiplies with query, key and value in one go; hidden_states: (B, T, hidden_size)."""

    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_size = hidden_size // num_heads
        self.query = nn.Linear(hidden_size, hidden_size, bias=False)
        self.key = nn.Linear(hidden_size, hidden_size, bias=False)
        self.value = nn.Linear(hidden_size, hidden_size, bias=False)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def fused_weight(self):
        """(num_heads, 3, head_size, hidden_size) as one matrix, so that a shard of its rows is a shard of the heads."""
        layers = (self.query, self.key, self.value)
        per_head = [layer.weight.view(self.num_heads, self.head_size, -1) for layer in layers]
        return torch.stack(per_head, dim=1).flatten(0, 2)

    def forward(self, hidden_states):
        B, T, _ = hidden_states.shape
        qkv = F.linear(hidden_states, self.fused_weight())
        q, k, v = qkv.view(B, T, 3, self.num_heads, self.head_size).unbind(dim=2)  # bug
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v)
        return self.dense(out.transpose(1, 2).flatten(2))
