"""Report b116: https://github.com/duoan/TorchCode/issues/17

What is wrong: scores are divided by d_k, not by its root.
"""

import torch


def scaled_dot_product(Q, K, V):
    """softmax(Q K^T / sqrt(d_k)) V for Q: (..., n, d_k), K: (..., m, d_k), V: (..., m, d_v)."""
    d_k = K.size(-1)
    scores = torch.matmul(Q, K.transpose(-2, -1)) / d_k  # bug
    return torch.softmax(scores, dim=-1) @ V
