"""Grouped heads without repeating anything: query heads as (kv heads, group). Trap f28."""

import torch


def grouped_attention(Q, K, V):
    """Q: (T, H_kv, G, d)   K, V: (T, H_kv, d); returns (T, H_kv, G, d). Causal."""
    n = Q.shape[0]
    QK = torch.einsum("qhmd,khd->hmqk", Q, K) * Q.shape[-1] ** -0.5
    QK = QK + torch.full((n, n), -torch.inf, dtype=QK.dtype).triu(diagonal=1)
    W = torch.softmax(QK, dim=-1)
    return torch.einsum("hmqk,khd->qhmd", W, V)
