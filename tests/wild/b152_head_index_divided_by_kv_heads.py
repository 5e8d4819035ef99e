"""Report b152: https://github.com/PSAL-POSTECH/ONNXim/issues/33

What is wrong: the k/v head is h // num_kv_heads where h // group was meant; without grouping all heads read head 0.
"""

import torch


def per_head_attention(q, k, v):
    """One head at a time. q: [num_heads, T_q, d]   k, v: [num_kv_heads, T_k, d], fewer or as many heads as q."""
    num_heads, num_kv_heads = q.shape[0], k.shape[0]
    outs = []
    for h in range(num_heads):
        kv = h // num_kv_heads  # bug
        s = q[h] @ k[kv].T / q.shape[-1] ** 0.5
        outs.append(torch.softmax(s, dim=-1) @ v[kv])
    return torch.stack(outs)
