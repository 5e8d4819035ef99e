"""Settings come as a tree; a value that may be missing is asked for with getattr."""

import torch
from torch import nn


class PatchAttention(nn.Module):
    """Bidirectional self-attention over patches: (B, N, width)."""

    def __init__(self, cfg):
        super().__init__()
        width = cfg.model.width
        self.heads = cfg.model.attention.heads
        bias = getattr(cfg.model.attention, "qkv_bias", True)
        self.kv = nn.Linear(width, 2 * width, bias=bias)
        self.q = nn.Linear(width, width, bias=bias)
        self.o = nn.Linear(width, width)
        self.drop_p = cfg.model.attention.dropout

    def forward(self, x):
        B, N, C = x.shape
        q = self.q(x).reshape(B, N, self.heads, C // self.heads).permute(0, 2, 1, 3)
        kv = self.kv(x).reshape(B, N, 2, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        p = self.drop_p if self.training else 0.0
        y = nn.functional.scaled_dot_product_attention(q, kv[0], kv[1], dropout_p=p)
        return self.o(torch.movedim(y, 1, 2).reshape(B, N, C))
