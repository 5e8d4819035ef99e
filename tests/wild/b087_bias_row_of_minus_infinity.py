"""Report b087: https://github.com/pytorch/pytorch/issues/103963

What is wrong: the bool mask becomes a bias, and a row without a key becomes a bias of only -inf.
"""

import torch


def biased_attention(query, key, value, *, allowed_mask):
    """query, key, value: (B, T, H, d); allowed_mask: bool (T_q, T_k).

    A query with no visible key returns zeros.
    """
    bias = torch.zeros(allowed_mask.shape, dtype=query.dtype).masked_fill(~allowed_mask, -torch.inf)
    logits = torch.einsum("bqhd,bkhd->bhqk", query, key) * query.shape[-1] ** -0.5
    probs = torch.softmax(logits + bias, dim=-1)  # bug
    return torch.einsum("bhqk,bkhd->bqhd", probs, value)
