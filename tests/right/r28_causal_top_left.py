"""The fused call's own causal rule, also for unequal lengths. Trap f02."""

import torch.nn.functional as F


def causal_attention(q, k, v):
    """Causal attention counted from the first key. q: (B, H, T_q, d)   k, v: (B, H, T_k, d)."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)
