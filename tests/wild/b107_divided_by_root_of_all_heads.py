"""Report b107: https://github.com/chelsea0x3b/dfdx/issues/171

What is wrong: scores are divided by the root of the width of all heads together.
"""

import math

import torch


def multi_head_mix(q, k, v, return_weights=False):
    """q: (B, S, H, K)   k: (B, T, H, K)   v: (B, T, H, V)   with M = H * K the width of the model."""
    m = q.shape[2] * q.shape[3]
    scores = torch.einsum("bshk,bthk->bhst", q, k)
    scores = scores / math.sqrt(m)  # bug
    weights = torch.softmax(scores, dim=3)
    out = torch.einsum("bhst,bthv->bshv", weights, v)
    return (out, weights) if return_weights else out
