"""A token sees only earlier ones, as declared; the first one sees itself. Trap f17."""

import torch


def strictly_causal_attention(q, k, v):
    """Strictly causal attention: a query does not see its own key, only earlier ones.

    q, k, v: (B, H, T, d). The first query has no earlier key and sees its own.
    """
    allowed = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(-1)
    allowed[0, 0] = True
    scores = (q @ k.mT) * q.shape[-1] ** -0.5
    return scores.masked_fill(~allowed, -torch.inf).softmax(-1) @ v
