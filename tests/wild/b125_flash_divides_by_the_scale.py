"""Report b125: https://github.com/lucidrains/x-transformers/issues/190

What is wrong: with flash the similarities are divided by the scale, without it they are multiplied by it.
"""

import torch.nn.functional as F
from einops import rearrange
from torch import einsum, nn


class Attention(nn.Module):
    """Attention over queries and keys of length one, times a scale; x: (b, n, dim)."""

    def __init__(self, dim, heads=8, dim_head=64, qk_norm_scale=10.0, flash=False):
        """flash: the same by the fused kernel"""
        super().__init__()
        self.heads, self.scale, self.flash = heads, qk_norm_scale, flash
        inner_dim = heads * dim_head
        self.to_q = nn.Linear(dim, inner_dim, bias=False)
        self.to_k = nn.Linear(dim, inner_dim, bias=False)
        self.to_v = nn.Linear(dim, inner_dim, bias=False)
        self.to_out = nn.Linear(inner_dim, dim, bias=False)

    def forward(self, x):
        q, k, v = (rearrange(to(x), "b n (h d) -> b h n d", h=self.heads) for to in (self.to_q, self.to_k, self.to_v))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        if self.flash:
            default_scale = q.shape[-1] ** -0.5
            q = q * (default_scale / self.scale)  # bug
            out = F.scaled_dot_product_attention(q, k, v)
        else:
            sim = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
            out = einsum("b h i j, b h j d -> b h i d", sim.softmax(dim=-1), v)
        return self.to_out(rearrange(out, "b h n d -> b n (h d)"))
