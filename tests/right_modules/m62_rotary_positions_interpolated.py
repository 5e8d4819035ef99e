"""Rotary positions divided by a factor, so that longer inputs stay within the trained range. arXiv 2306.15595."""

import torch
import torch.nn.functional as F
from torch import nn


class InterpolatedRotaryAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, rope_theta: float = 10000.0, rope_factor: float = 3.0):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = d_model // n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.proj = nn.Linear(d_model, d_model)
        rates = rope_theta ** (-torch.arange(0, self.head_dim, 2).float() / self.head_dim)
        self.register_buffer("inv_freq", rates / rope_factor, persistent=False)

    def rotate(self, x):  # (B, H, T, d)
        angles = torch.outer(torch.arange(x.shape[2], device=x.device).float(), self.inv_freq.float())
        angles = torch.cat((angles, angles), dim=-1)
        a, b = x.chunk(2, dim=-1)
        return x * angles.cos().to(x.dtype) + torch.cat((-b, a), dim=-1) * angles.sin().to(x.dtype)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.n_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))
