"""Report b188: https://github.com/huggingface/pytorch-image-models/pull/1978

What is wrong: the fused call gets the probability of the dropout layer whether or not the module is in training.
"""

import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """Attention of a vision transformer; x: (B, N, dim)."""

    def __init__(self, dim, num_heads=8, qkv_bias=False, attn_drop=0.0, fused_attn=True):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.fused_attn = fused_attn
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        if self.fused_attn:
            x = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_drop.p)  # bug
        else:
            attn = (q * self.head_dim**-0.5) @ k.transpose(-2, -1)
            x = self.attn_drop(attn.softmax(dim=-1)) @ v
        return self.proj(x.transpose(1, 2).reshape(B, N, C))
