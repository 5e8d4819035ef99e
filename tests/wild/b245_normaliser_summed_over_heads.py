"""Report b245: https://github.com/fla-org/flash-linear-attention/pull/594

What is wrong: the running sum of the normaliser goes over axis -2, the heads in this layout, not the positions.
"""

import torch
import torch.nn.functional as F


def causal_linear_attention(q, k, v):
    """Causal linear attention with the feature map elu(x) + 1, normalised by the features of the keys so far.

    q, k: [B, T, H, K]   v: [B, T, H, V]
    """
    q, k = F.elu(q) + 1, F.elu(k) + 1
    state = torch.einsum("bthk,bthv->bthkv", k, v).cumsum(1)
    out = torch.einsum("bthk,bthkv->bthv", q, state)
    norm = (q * k.cumsum(-2)).sum(-1, keepdim=True)  # bug
    return out / norm
