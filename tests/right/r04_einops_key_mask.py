"""Rearranged masks and a large negative fill."""

import torch
from einops import rearrange
from torch import einsum


def attend(q, k, v, mask=None):
    """q, k, v: (b, h, n, d); mask: (b, j) bool, True = a real token."""
    sim = einsum("b h i d, b h j d -> b h i j", q, k) * q.shape[-1] ** -0.5
    if mask is not None:
        mask = rearrange(mask, "b j -> b 1 1 j")
        sim = sim.masked_fill(~mask, -torch.finfo(sim.dtype).max)
    attn = sim.softmax(dim=-1)
    return einsum("b h i j, b h j d -> b h i d", attn, v)
