"""Cosine similarity times a learned, bounded temperature. Trap f11."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class CosineAttention(nn.Module):
    """Self-attention with l2-normed queries and keys (cosine attention) and a logit scale for every head."""

    def __init__(self, dim, num_heads, qkv_bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones((num_heads, 1, 1))))
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = attn * torch.clamp(self.logit_scale, max=math.log(100.0)).exp()
        return self.proj((attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(B, N, C))
