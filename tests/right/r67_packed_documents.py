"""A token sees only its own document."""

import torch


def document_attention(q, k, v, document_ids):
    """Causal attention within documents. q, k, v: (B, H, T, d); document_ids: int (B, T)."""
    same = document_ids[:, :, None] == document_ids[:, None, :]
    allowed = same.tril()[:, None]
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1) @ v
