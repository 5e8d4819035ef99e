"""Report b203: https://github.com/lucidrains/x-transformers/issues/174

What is wrong: the mask of x is put on the keys of the context.
"""

import torch
from einops import rearrange
from torch import einsum, nn


class Attention(nn.Module):
    """Attention of x to a context, or to itself if there is none."""

    def __init__(self, dim, heads=8, dim_head=64):
        super().__init__()
        self.heads, self.scale = heads, dim_head**-0.5
        self.to_q = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_k = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_v = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_out = nn.Linear(heads * dim_head, dim, bias=False)

    def forward(self, x, context=None, mask=None, context_mask=None):
        """x: (b, n, dim)   context: (b, m, dim)

        mask: (b, n) bool, True = a token of x, False = padding
        context_mask: (b, m) bool, True = a token of the context, False = padding
        """
        kv_input = x if context is None else context
        q, k, v = self.to_q(x), self.to_k(kv_input), self.to_v(kv_input)
        q, k, v = (rearrange(t, "b n (h d) -> b h n d", h=self.heads) for t in (q, k, v))
        dots = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        input_mask = mask  # bug
        if input_mask is not None:
            dots = dots.masked_fill(~rearrange(input_mask, "b j -> b 1 1 j"), -torch.finfo(dots.dtype).max)
        out = einsum("b h i j, b h j d -> b h i d", dots.softmax(dim=-1), v)
        return self.to_out(rearrange(out, "b h n d -> b n (h d)"))
