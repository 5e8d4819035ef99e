"""Report b046: https://github.com/lucidrains/vit-pytorch/issues/71

What is wrong: a (b, 1, j) mask meets (b, h, i, j) scores without an axis for the heads.
"""

import torch
from einops import rearrange
from torch import nn


class Attend(nn.Module):
    """Attention after the heads were split: q, k, v are (b, h, n, d)."""

    def forward(self, q, k, v, mask=None):
        """mask: (b, n), True = a patch of the image, False = padding."""
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
        if mask is not None:
            mask = rearrange(mask, "b j -> b 1 j")  # bug
            dots = dots.masked_fill(~mask, torch.finfo(dots.dtype).min)
        return torch.einsum("bhij,bhjd->bhid", dots.softmax(dim=-1), v)
