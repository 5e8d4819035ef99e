"""Report b171: https://github.com/paiml/aprender/pull/2143

What is wrong: the exponents start at 0, so head 0 has slope 1 and every head a slope too steep.
"""

import torch


def attention_with_linear_bias(query, key, value):
    """Causal attention with ALiBi. query, key, value: (batch, seq, heads, dim), heads a power of two.

    Head h, counted from 1, has the slope 2 ** (-8 * h / heads).
    """
    seq, heads = query.shape[1], query.shape[2]
    slope = 2.0 ** (-8.0 / heads * torch.arange(heads))  # bug
    pos = torch.arange(seq)
    offset = pos[None, :] - pos[:, None]
    logits = torch.einsum("bqhd,bkhd->bhqk", query, key) / query.shape[-1] ** 0.5
    logits = logits + (slope[:, None, None] * offset).to(logits.dtype)
    logits = torch.where(offset <= 0, logits, -torch.inf)
    return torch.einsum("bhqk,bkhd->bqhd", torch.softmax(logits, -1), value)
