"""Report b246: https://github.com/lucidrains/performer-pytorch/issues/40

What is wrong: the output is multiplied by the normaliser where it should be divided.
"""

import torch


def linear_attention(q, k, v):
    """Linear attention, not causal. q, k: (b, h, n, d) features before the map relu(x) + 0.001, v: (b, h, n, e)."""
    q, k = torch.relu(q) + 1e-3, torch.relu(k) + 1e-3
    d_inv = torch.einsum("...nd,...d->...n", q, k.sum(dim=-2))
    context = torch.einsum("...nd,...ne->...de", k, v)
    return torch.einsum("...de,...nd,...n->...ne", context, q, d_inv)  # bug
