"""Heads folded into the batch; how many there are follows from the mask."""

import torch


def folded_attention(q, k, v, mask=None):
    """q, k, v: (B * H, T, d); mask: bool (B, T_k), True = a real token."""
    dots = torch.einsum("bid,bjd->bij", q, k) * q.shape[-1] ** -0.5
    if mask is not None:
        mask = mask.repeat_interleave(q.shape[0] // mask.shape[0], dim=0)
        dots.masked_fill_(~mask[:, None, :], torch.finfo(dots.dtype).min)
    return torch.einsum("bij,bjd->bid", dots.softmax(dim=-1), v)
