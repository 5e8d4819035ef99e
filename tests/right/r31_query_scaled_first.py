"""The query is scaled before the product. Trap f08."""

import torch


def attention(q, k, v, key_padding_mask=None):
    """q, k, v: (B, H, T, d); key_padding_mask: bool (B, T_k), True = padding."""
    scaling = float(q.shape[-1]) ** -0.5
    attn = torch.matmul(q * scaling, k.transpose(2, 3))
    if key_padding_mask is not None:
        attn = attn.masked_fill(key_padding_mask[:, None, None], float("-inf"))
    return torch.matmul(torch.softmax(attn, -1), v)
