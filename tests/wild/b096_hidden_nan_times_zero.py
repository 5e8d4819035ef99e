"""Report b096: https://github.com/pytorch/pytorch/issues/101967

What is wrong: a hidden value of NaN is multiplied by weight 0, which is NaN.
"""

import torch


def padded_attention(q, k, v, mask):
    """q, k, v: (B, H, T, d); mask: (B, T_k) bool, True = a real token.

    Padded positions of k and v may hold uninitialised memory, NaN included; it must not reach the output.
    """
    scores = torch.matmul(q, k.transpose(2, 3)) * q.shape[-1] ** -0.5
    scores = scores.masked_fill(~mask[:, None, None, :], -torch.inf)
    weights = scores.softmax(dim=-1)
    return torch.matmul(weights, v)  # bug
