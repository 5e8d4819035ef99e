"""Report b126: https://github.com/reczoo/FuxiCTR/issues/30

What is wrong: view() cuts each sample into blocks of tokens where the features should be cut into heads.
"""

import torch
from torch import nn


class MultiHeadSelfAttention(nn.Module):
    """Interaction of the fields of a sample; X: (batch, num_fields, input_dim)."""

    def __init__(self, input_dim, num_heads=2):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = input_dim // num_heads
        self.W_q = nn.Linear(input_dim, input_dim, bias=False)
        self.W_k = nn.Linear(input_dim, input_dim, bias=False)
        self.W_v = nn.Linear(input_dim, input_dim, bias=False)
        self.W_o = nn.Linear(input_dim, input_dim, bias=False)

    def forward(self, X):
        batch_size, num_fields, input_dim = X.size()
        query, key, value = (self.split(W(X)) for W in (self.W_q, self.W_k, self.W_v))
        scores = torch.bmm(query, key.transpose(1, 2)) / self.head_dim**0.5
        output = torch.bmm(scores.softmax(dim=2), value)
        output = output.view(batch_size, self.num_heads, num_fields, self.head_dim).transpose(1, 2)
        return self.W_o(output.reshape(batch_size, num_fields, input_dim))

    def split(self, x):
        """(batch, num_fields, input_dim) -> (batch * num_heads, num_fields, head_dim)"""
        return x.view(x.size(0) * self.num_heads, -1, self.head_dim)  # bug
