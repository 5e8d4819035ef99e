"""Report b169: https://github.com/meta-pytorch/attention-gym/pull/86

What is wrong: the linear bias is slope * (query - key), which grows with distance.
"""

import torch


def alibi_attention(q, k, v):
    """Causal attention with ALiBi: the further back a key, the lower its score.

    q, k, v: (B, H, T, d); head h of H has the slope 2 ** (-8 * (h + 1) / H), H a power of two
    """
    H, T = q.shape[1], q.shape[2]
    q_idx, kv_idx = torch.arange(T)[:, None], torch.arange(T)[None, :]
    slopes = torch.tensor([2.0 ** (-8 * (h + 1) / H) for h in range(H)], dtype=q.dtype)
    bias = slopes[:, None, None] * (q_idx - kv_idx)  # bug
    score = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5 + bias
    score = score.masked_fill(kv_idx > q_idx, float("-inf"))
    return torch.einsum("bhqk,bhkd->bhqd", score.softmax(-1), v)
