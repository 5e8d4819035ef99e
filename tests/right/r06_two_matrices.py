"""No batch and no heads: the formula as on paper."""

import torch


def attention(Q, K, V):
    """softmax(Q K^T / sqrt(d)) V with Q: (T_q, d), K: (T_k, d), V: (T_k, d_v)."""
    S = Q @ K.T / Q.shape[1] ** 0.5
    A = torch.softmax(S, dim=1)
    return A @ V
