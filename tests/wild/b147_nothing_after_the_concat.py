"""Report b147: https://github.com/Kyubyong/transformer/issues/117

What is wrong: the heads are put side by side and returned; no layer mixes them.
"""

import torch
from torch import nn


class MultiheadAttention(nn.Module):
    """Multi-head attention as in the paper: heads, concatenation, projection."""

    def __init__(self, num_units, num_heads=8):
        super().__init__()
        self.num_heads = num_heads
        self.dense_q = nn.Linear(num_units, num_units)
        self.dense_k = nn.Linear(num_units, num_units)
        self.dense_v = nn.Linear(num_units, num_units)
        self.dense_o = nn.Identity()  # bug

    def forward(self, queries, keys, values):
        """queries: (N, T_q, num_units)   keys, values: (N, T_k, num_units)"""
        layers = ((self.dense_q, queries), (self.dense_k, keys), (self.dense_v, values))
        Q, K, V = (torch.stack(dense(x).chunk(self.num_heads, dim=-1)) for dense, x in layers)
        outputs = torch.matmul(Q, K.mT) / Q.shape[-1] ** 0.5  # (h, N, T_q, T_k)
        outputs = torch.matmul(outputs.softmax(dim=-1), V)
        outputs = torch.cat(outputs.unbind(0), dim=-1)
        return self.dense_o(outputs)
