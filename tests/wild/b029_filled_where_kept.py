"""Report b029: https://github.com/lucidrains/halonet-pytorch/issues/4

What is wrong: the scores are filled where the mask says keep, not where it says drop.
"""

import torch
from einops import rearrange, repeat
from torch import einsum


def halo_attention(q, k, v, mask):
    """Attention of a block to its halo.

    q, k, v: (b, h, n, d)
    mask: (b, j), True = a pixel inside the image, may be attended
    """
    h = q.shape[1]
    q, k, v = (rearrange(t, "b h n d -> (b h) n d") for t in (q, k, v))
    sim = einsum("b i d, b j d -> b i j", q * q.shape[-1] ** -0.5, k)
    mask = repeat(mask, "b j -> (b h) 1 j", h=h)
    sim = sim.masked_fill(mask, -torch.finfo(sim.dtype).max)  # bug
    out = einsum("b i j, b j d -> b i d", sim.softmax(dim=-1), v)
    return rearrange(out, "(b h) n d -> b h n d", h=h)
