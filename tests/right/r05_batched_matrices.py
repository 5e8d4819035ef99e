"""One head, batched matrix products."""

import math

import torch


def attention(q, k, v):
    """q: (B, T_q, d)   k: (B, T_k, d)   v: (B, T_k, d_v)."""
    attn = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(-1))
    return torch.bmm(torch.softmax(attn, dim=2), v)
