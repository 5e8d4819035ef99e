"""The keys arrive already transposed."""

import torch


def attention_with_transposed_keys(q, k_t, v):
    """q: (B, H, T_q, d)   k_t: (B, H, d, T_k)   v: (B, H, T_k, d_v)."""
    weights = torch.softmax(torch.matmul(q, k_t) / q.size(-1) ** 0.5, dim=-1)
    return torch.matmul(weights, v)
