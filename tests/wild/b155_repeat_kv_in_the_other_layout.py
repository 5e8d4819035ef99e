"""Report b155: https://github.com/datawhalechina/tiny-universe/issues/21

What is wrong: repeat_kv expects (B, T, H_kv, d) and gets (B, H_kv, T, d): the keys are doubled instead of the heads.
"""

import torch.nn.functional as F


def _repeat_kv(x, n_rep):
    """(a, b, c, d) -> (a, b, c * n_rep, d), each entry of axis 2 repeated."""
    a, b, c, d = x.shape
    return x[:, :, :, None, :].expand(a, b, c, n_rep, d).reshape(a, b, c * n_rep, d)


def causal_grouped_attention(query, key, value):
    """Causal attention with grouped heads. query: (B, H, T, d)   key, value: (B, H_kv, T, d)."""
    n_rep = query.shape[1] // key.shape[1]
    key, value = (_repeat_kv(x, n_rep) for x in (key, value))  # bug
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
