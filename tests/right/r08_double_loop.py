"""Every number worked out one by one."""

import math

import torch


def slow_attention(q, k, v):
    """q: (T_q, d)   k: (T_k, d)   v: (T_k, d_v)."""
    wide = torch.promote_types(q.dtype, torch.float32)
    out = []
    for i in range(q.shape[0]):
        scores = [(q[i].to(wide) * k[j].to(wide)).sum() / math.sqrt(q.shape[1]) for j in range(k.shape[0])]
        top = max(scores)
        shares = [torch.exp(s - top) for s in scores]
        total = sum(shares)
        out.append(sum(p / total * v[j].to(wide) for j, p in enumerate(shares)))
    return torch.stack(out).to(v.dtype)
