"""Rotary positions whose long wavelengths are stretched, as in Llama 3.1: arXiv 2407.21783, section 3.4.2."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def stretched(rates, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, old_context_len=32):
    wavelengths = 2 * math.pi / rates
    smooth = (old_context_len / wavelengths - low_freq_factor) / (high_freq_factor - low_freq_factor)
    between = (1 - smooth) * rates / factor + smooth * rates
    rates = torch.where(wavelengths > old_context_len / low_freq_factor, rates / factor, rates)
    is_medium = (wavelengths <= old_context_len / low_freq_factor) & (
        wavelengths >= old_context_len / high_freq_factor
    )
    return torch.where(is_medium, between, rates)


class LongContextAttention(nn.Module):
    def __init__(self, dim: int, n_heads: int, n_kv_heads: int, rope_theta: float = 500000.0):
        super().__init__()
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.head_dim = dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)
        rates = 1.0 / rope_theta ** (torch.arange(0, self.head_dim, 2).float() / self.head_dim)
        self.register_buffer("freqs", stretched(rates), persistent=False)

    def rotate(self, x):  # (B, H, T, d), neighbours turn together
        angles = torch.arange(x.shape[2], device=x.device).float()[:, None] * self.freqs.float()
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)

    def forward(self, x):
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.wk(x).view(B, T, self.n_kv_heads, self.head_dim).transpose(1, 2)
        v = self.wv(x).view(B, T, self.n_kv_heads, self.head_dim).transpose(1, 2)
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True, enable_gqa=True)
        return self.wo(y.transpose(1, 2).reshape(B, T, -1))
