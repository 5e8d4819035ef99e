"""Report b086: https://github.com/pytorch/pytorch/issues/103749

What is wrong: a row of only -inf goes into the softmax and comes out as NaN.
"""

import torch


def attention_with_mask(q, k, v, attn_mask):
    """q, k, v: (N, H, T, E); attn_mask: bool (N, 1, T_q, T_k), True = may attend.

    Rows with no visible key return zeros.
    """
    scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(~attn_mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)  # bug
    return torch.matmul(weights, v)
