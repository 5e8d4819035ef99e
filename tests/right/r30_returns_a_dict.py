"""Returns named results."""

import torch


def attention(q, k, v):
    """q, k, v: (B, T, H, d); returns a dict with "context" (B, T, H, d) and "weights" (B, H, T_q, T_k)."""
    weights = torch.einsum("bqhd,bkhd->bhqk", q, k).mul(q.shape[-1] ** -0.5).softmax(dim=-1)
    return {"weights": weights, "context": torch.einsum("bhqk,bkhd->bqhd", weights, v)}
