"""Lines that end in `# wrong` must be found by the lint this file is named after, and no other line."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.num_heads = num_heads

    def three_axes(self, x):
        B, T, C = x.shape
        q, k = self.q_proj(x), self.k_proj(x)
        return q @ k.T  # wrong

    def four_axes(self, x):
        B, T, C = x.size()
        q = self.q_proj(x).view(B, T, self.num_heads, -1).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.num_heads, -1).transpose(1, 2)
        return torch.matmul(q, k.T)  # wrong

    def method(self, q, x):
        B, T, C = x.shape
        keys = self.k_proj(x)
        return torch.bmm(q, keys.t())  # wrong

    def swapped(self, x):
        B, T, C = x.shape
        q, k = self.q_proj(x), self.k_proj(x)
        return q @ k.transpose(-2, -1)

    def two_axes(self, x):
        T, C = x.shape
        q, k = self.q_proj(x), self.k_proj(x)
        return q @ k.T

    def unknown(self, q, k):
        return q @ k.T

    def one_sample(self, x):
        B, T, C = x.shape
        k = self.k_proj(x)[0]
        q = self.q_proj(x)[0]
        return q @ k.T

    def a_weight(self, x):
        B, T, C = x.shape
        return x @ self.weight.T
