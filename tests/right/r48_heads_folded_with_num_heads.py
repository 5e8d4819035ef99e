"""Heads folded into the batch; the mask of a sample is repeated for each of its heads."""

import torch


def folded_attention(q, k, v, num_heads, key_padding_mask=None):
    """q, k, v: (B * num_heads, T, d), head index fastest; key_padding_mask: bool (B, T_k), True = padding."""
    scores = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
    if key_padding_mask is not None:
        bsz = q.shape[0] // num_heads
        scores = scores.view(bsz, num_heads, *scores.shape[1:])
        scores = scores.masked_fill(key_padding_mask[:, None, None, :], -torch.inf)
        scores = scores.view(bsz * num_heads, *scores.shape[2:])
    return torch.bmm(torch.softmax(scores, dim=-1), v)
