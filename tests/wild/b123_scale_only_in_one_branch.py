"""Report b123: https://github.com/huggingface/pytorch-image-models/issues/2280

What is wrong: the fused branch does not pass the scale on, so a scale of one's own counts in the other branch only.
"""

import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """Attention of a vision transformer; x: (B, N, dim)."""

    def __init__(self, dim, num_heads=8, qkv_bias=False, scale=None, fused_attn=True):
        """scale: what the scores are multiplied by; head_dim ** -0.5 if None"""
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.scale = self.head_dim**-0.5 if scale is None else scale
        self.fused_attn = fused_attn
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        if self.fused_attn:
            x = F.scaled_dot_product_attention(q, k, v)  # bug
        else:
            attn = (q * self.scale) @ k.transpose(-2, -1)
            x = attn.softmax(dim=-1) @ v
        return self.proj(x.transpose(1, 2).reshape(B, N, C))
