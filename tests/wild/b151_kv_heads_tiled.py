"""Report b151: https://github.com/ekzhang/jax-js/pull/180

What is wrong: key/value heads are tiled 0 1 0 1 where queries expect 0 0 1 1.
"""

import torch


def grouped_query_attention(q, k, v):
    """q: (B, H, T, d)   k, v: (B, H_kv, T, d), H a multiple of H_kv; consecutive query heads share a k/v head."""
    groups = q.shape[1] // k.shape[1]
    k, v = (x.repeat(1, groups, 1, 1) for x in (k, v))  # bug
    scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
    return torch.softmax(scores, dim=-1) @ v
