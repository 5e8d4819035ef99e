"""Report b070: https://github.com/InfiniTensor/InfiniCore/issues/279

What is wrong: the triangle is shifted by the number of keys instead of keys minus queries, so it hides nothing.
"""

import torch


def causal_softmax_attention(q, k, v):
    """Causal attention, the last query aligned with the last key. q: (H, T_q, d), k, v: (H, T_k, d)."""
    scores = torch.einsum("hqd,hkd->hqk", q, k) * q.shape[-1] ** -0.5
    q_len, k_len = scores.shape[-2:]
    visible = torch.ones(q_len, k_len, dtype=torch.bool).tril(diagonal=k_len)  # bug
    probs = torch.where(visible, scores, -torch.inf).softmax(-1)
    return torch.einsum("hqk,hkd->hqd", probs, v)
