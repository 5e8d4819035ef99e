"""Report b045: https://github.com/lucidrains/graph-transformer-pytorch/pull/2

What is wrong: a (b, i, j) mask is broadcast against (b, h, i, j) scores, so its samples line up with the heads.
"""

import torch
from torch import einsum


def graph_attention(q, k, v, mask=None):
    """Attention between the nodes of a graph.

    q, k, v: (b, h, n, d)
    mask: (b, i, j) bool, True = node i may attend to node j
    """
    sim = einsum("b h i d, b h j d -> b h i j", q, k) * (q.shape[-1] ** -0.5)
    if mask is not None:
        sim = sim.masked_fill(~mask, -torch.finfo(sim.dtype).max)  # bug
    attn = sim.softmax(dim=-1)
    return einsum("b h i j, b h j d -> b h i d", attn, v)
