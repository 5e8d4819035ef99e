"""An additive mask of 0 and -100, as shifted windows use it. Trap f05."""

import torch


def window_attention(q, k, v, mask=None):
    """q, k, v: (windows, heads, tokens, dim); mask: bool (tokens, tokens), True = same region; others get -100."""
    attn = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    if mask is not None:
        bias = torch.zeros(mask.shape, dtype=attn.dtype).masked_fill(~mask, -100.0)
        attn = attn + bias
    return attn.softmax(dim=-1) @ v
