"""Attention with the caller's ALiBi slopes, Press et al. 2022, arXiv 2108.12409."""

import math

import torch


def attend(q, k, v, alibi_slopes=None, is_causal=False):
    """Attend, with a penalty that grows with the distance between query and key.

    q: (B, H, T, d)   k: (B, H, T, d)   v: (B, H, T, d_v)
    alibi_slopes: float (H,); -alibi_slopes[h] * |i - j| is added to the scaled scores, so near keys are favoured.
    is_causal: query i sees keys 0..i.

    Returns (B, H, T, d_v).
    """
    T = q.shape[2]
    i = torch.arange(T, device=q.device)[:, None]
    j = torch.arange(T, device=q.device)[None, :]
    logits = torch.einsum("bhid,bhjd->bhij", q, k)
    logits = logits / math.sqrt(q.shape[-1])
    if alibi_slopes is not None:
        penalty = alibi_slopes[:, None, None].to(q.dtype) * (i - j).abs()
        logits = logits - penalty
    if is_causal:
        logits = logits.masked_fill(j > i, -math.inf)
    return torch.einsum("bhij,bhjd->bhid", logits.softmax(dim=-1), v)
