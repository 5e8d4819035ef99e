"""Report b008: https://github.com/tenstorrent/tt-metal/issues/12661

What is wrong: numerator and denominator are summed chunk by chunk without a running maximum.
"""

import torch


def streaming_attention(q, k, v, chunk=4):
    """Read the keys chunk by chunk and keep only a numerator and a denominator.

    q: [T_q, d]   k: [T_k, d]   v: [T_k, d_v]
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    queries, keys, values = q.to(wide), k.to(wide), v.to(wide)
    top = torch.zeros(q.shape[0], v.shape[1], dtype=wide)
    bottom = torch.zeros(q.shape[0], 1, dtype=wide)
    for start in range(0, k.shape[0], chunk):
        part = slice(start, start + chunk)
        s = queries @ keys[part].T / q.shape[1] ** 0.5
        e = torch.exp(s)  # bug
        top = top + e @ values[part]
        bottom = bottom + e.sum(dim=1, keepdim=True)
    return (top / bottom).to(q.dtype)
