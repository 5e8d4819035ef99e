"""A (B, T_q, T_k) mask shared by the heads."""

import torch


def relation_attention(q, k, v, adjacency):
    """q, k, v: (B, H, N, d); adjacency: (B, N, N) of 0 and 1, 1 = node i may look at node j."""
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(adjacency.unsqueeze(1) == 0, -torch.inf)
    return torch.einsum("bhnm,bhmd->bhnd", torch.softmax(scores, dim=-1), v)
