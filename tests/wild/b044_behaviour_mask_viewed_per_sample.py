"""Report b044: https://github.com/reczoo/FuxiCTR/issues/130

What is wrong: the copies of a sample's mask lie together, but the heads were stacked with all samples of head 0 first.
"""

import torch
from torch import nn


class MultiHeadSelfAttention(nn.Module):
    """Attention over the past behaviour of a user."""

    def __init__(self, input_dim, num_heads=2):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (input_dim // num_heads) ** 0.5
        self.W_q = nn.Linear(input_dim, input_dim, bias=False)
        self.W_k = nn.Linear(input_dim, input_dim, bias=False)
        self.W_v = nn.Linear(input_dim, input_dim, bias=False)
        self.W_o = nn.Linear(input_dim, input_dim, bias=False)

    def stack_heads(self, x):
        """(batch, seq_len, input_dim) -> (num_heads * batch, seq_len, head_dim)"""
        return torch.cat(x.chunk(self.num_heads, dim=-1), dim=0)

    def forward(self, X, padding_mask):
        """X: (batch, seq_len, input_dim)

        padding_mask: (batch, seq_len) bool, True = padding
        """
        seq_len = X.size(1)
        query, key, value = (self.stack_heads(w(X)) for w in (self.W_q, self.W_k, self.W_v))
        attn_mask = padding_mask.unsqueeze(1).repeat(1, seq_len * self.num_heads, 1).view(-1, seq_len, seq_len)  # bug
        scores = torch.bmm(query, key.transpose(1, 2)) / self.scale
        scores = scores.masked_fill(attn_mask, float("-inf"))
        output = torch.bmm(scores.softmax(dim=-1), value)
        return self.W_o(torch.cat(output.chunk(self.num_heads, dim=0), dim=-1))
