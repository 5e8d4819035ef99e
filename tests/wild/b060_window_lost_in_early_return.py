"""Report b060: https://github.com/jax-ml/jax/issues/32300

What is wrong: the early return asks about the mask and causality, not about the window.
"""

import torch
import torch.nn.functional as F


def dot_product_attention(query, key, value, mask=None, *, is_causal=False, window_size=None):
    """query, key, value: (B, H, T, d).

    mask: bool, broadcastable to (B, H, T_q, T_k), True = may attend
    is_causal: hide the keys after each query
    window_size: how many keys a query sees, itself included, counted backwards; None = all
    """
    if mask is None and not is_causal:
        return F.scaled_dot_product_attention(query, key, value)  # bug
    rows = torch.arange(query.shape[-2])[:, None]
    cols = torch.arange(key.shape[-2])[None, :]
    allowed = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool) if mask is None else mask
    if is_causal:
        allowed = allowed & (cols <= rows)
    if window_size is not None:
        allowed = allowed & (cols <= rows) & (cols > rows - window_size)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
