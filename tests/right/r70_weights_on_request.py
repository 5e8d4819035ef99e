"""The weights only when asked for."""

import torch


def attend(Q, K, V, return_weights=False):
    """Q: (B, T_q, d)   K: (B, T_k, d)   V: (B, T_k, d_v)."""
    A = torch.softmax(Q @ K.transpose(1, 2) / Q.shape[-1] ** 0.5, dim=-1)
    return (A @ V, A) if return_weights else A @ V
