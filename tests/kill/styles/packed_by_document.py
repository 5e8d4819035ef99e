"""Attention over packed sequences, one document at a time."""

import math

import torch


def attend_documents(q, k, v, document_ids):
    """Bidirectional attention inside each document.

    q: (B, H, T, d)   k: (B, H, T, d)   v: (B, H, T, d_v)
    document_ids: int (B, T); a query sees only keys of its own document.

    Returns (B, H, T, d_v).
    """
    samples = []
    for b in range(q.shape[0]):
        mixed = torch.zeros_like(v[b])
        for document in document_ids[b].unique():
            here = (document_ids[b] == document).nonzero().squeeze(1)
            there = here
            scores = q[b][:, here] @ k[b][:, there].transpose(-2, -1)
            scores = scores / math.sqrt(q.shape[-1])
            weights = torch.softmax(scores, dim=-1)
            mixed = mixed.index_copy(1, here, weights @ v[b][:, there])
        samples.append(mixed)
    return torch.stack(samples)
