"""The fused call behind a small function."""

import torch.nn.functional as F


def attention(q, k, v, attn_mask=None, is_causal=False):
    """q, k, v: (B, H, T, d); attn_mask: bool, broadcastable to (B, H, T_q, T_k), True = may attend."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, is_causal=is_causal)
