"""Report b101: https://github.com/openai/gpt-2/pull/122

What is wrong: 1e10 is infinite in float16, and infinity times 0 is NaN at every visible key.
"""

import torch


def attend_causally(q, k, v):
    """Causal attention in float32 or float16. q, k, v: [batch, heads, sequence, features]."""
    w = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    nd, ns = w.shape[-2:]
    b = (torch.arange(nd)[:, None] >= torch.arange(ns) - ns + nd).to(w.dtype)
    w = w * b - torch.tensor(1e10, dtype=w.dtype) * (1 - b)  # bug
    return torch.matmul(torch.softmax(w, dim=-1), v)
