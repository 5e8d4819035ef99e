"""The fill -1e9 is used on float32 scores, whatever the inputs are."""

import torch


def attention(q, k, v, mask=None):
    """q, k, v: (B, T, H, d); mask: bool (B, T_q, T_k), True = visible; -1e9 elsewhere, so an empty row is uniform."""
    scores = torch.einsum("bqhd,bkhd->bhqk", q.float(), k.float()) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask[:, None] == False, -1e9)  # noqa: E712
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1).to(v.dtype), v)
