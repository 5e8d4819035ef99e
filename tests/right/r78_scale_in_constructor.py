"""The scale is worked out in the constructor from the width of a head."""

from torch import nn


class AttentionCore(nn.Module):
    """Attention without projections for heads of a given width; q, k, v: (B, num_heads, N, head_dim)."""

    def __init__(self, dim, num_heads=4, attn_drop=0.0):
        super().__init__()
        self.scale = (dim // num_heads) ** -0.5
        self.attn_drop = nn.Dropout(attn_drop)

    def forward(self, q, k, v):
        attn = (q @ k.transpose(-2, -1)) * self.scale
        return self.attn_drop(attn.softmax(dim=-1)) @ v
