"""Both rules at once."""

import torch


def decoder_attention(q, k, v, attention_mask=None, is_causal=True):
    """q, k, v: (B, H, T, d); attention_mask: (B, T_k), 1 = a real token; is_causal: hide later keys as well."""
    allowed = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
    if is_causal:
        allowed = allowed.tril()
    if attention_mask is not None:
        allowed = allowed & attention_mask.bool()[:, None, None, :]
    scores = torch.matmul(q, k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    return torch.matmul(scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1), v)
