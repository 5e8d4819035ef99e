"""Report b154: https://github.com/PrimeIntellect-ai/prime-rl/pull/2681

What is wrong: heads are repeated along axis 1, the sequence in this layout; the view that follows hides it.
"""

import torch


def _repeat_kv(x, n_rep):
    b, t, h, d = x.shape
    return x.repeat_interleave(n_rep, dim=1).view(b, t, h * n_rep, d)  # bug


def grouped_attention(q, k, v):
    """q: [B, T, H, d]   k, v: [B, T, H_kv, d]; query heads 0..g-1 share k/v head 0, the next g head 1, and so on."""
    n_rep = q.shape[2] // k.shape[2]
    k, v = _repeat_kv(k, n_rep), _repeat_kv(v, n_rep)
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)
