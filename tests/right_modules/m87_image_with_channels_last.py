"""Attention between the pixels of an image whose channels come last."""

from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, num_heads=8, qkv_bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, H, W, _ = x.shape
        qkv = self.qkv(x).reshape(B, H * W, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.reshape(3, B * self.num_heads, H * W, -1).unbind(0)
        shares = ((q * self.scale) @ k.transpose(-2, -1)).softmax(dim=-1)
        out = (shares @ v).view(B, self.num_heads, H, W, -1).permute(0, 2, 3, 1, 4)
        return self.proj(out.reshape(B, H, W, -1))
