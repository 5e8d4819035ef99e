"""Attention over packed sequences: several documents lie in one row of the batch."""

import torch


def packed_attention(q, k, v, document_ids=None, is_causal=False):
    """Attend within documents.

    q: (B, T, H, d)   k: (B, T, H, d)   v: (B, T, H, d_v)
    document_ids: int (B, T); a query sees only keys of its own document.
    is_causal: hide keys after the query.

    Returns (B, T, H, d_v).
    """
    T, d = q.shape[1], q.shape[3]
    allowed = torch.ones(1, 1, T, T, dtype=torch.bool, device=q.device)
    if document_ids is not None:
        same = document_ids[:, :, None] == document_ids[:, None, :]
        allowed = allowed & same[:, None]
    if is_causal:
        allowed = allowed & torch.ones(T, T, dtype=torch.bool, device=q.device).tril()

    scores = torch.einsum("bihd,bjhd->bhij", q, k) * d**-0.5
    scores = scores.masked_fill(~allowed, float("-inf"))
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhij,bjhd->bihd", weights, v)
