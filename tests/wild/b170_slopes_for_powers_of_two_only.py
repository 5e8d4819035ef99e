"""Report b170: https://github.com/ml-explore/mlx/pull/3071

What is wrong: the closed formula for the slopes is used for every number of heads, e.g. 6 or 12.
"""

import torch


def causal_alibi(q, k, v):
    """Causal attention with ALiBi biases, for any number of heads. q, k, v: [B, H, T, d].

    The slopes are those of the paper: for H not a power of two, the slopes of the next lower power n of two,
    then every other slope of 2 * n.
    """
    H, T = q.shape[1], q.shape[2]
    slopes = [2.0 ** (-8.0 * (h + 1) / H) for h in range(H)]  # bug
    distance = torch.arange(T)[None, :] - torch.arange(T)[:, None]  # key - query
    bias = torch.tensor(slopes, dtype=q.dtype)[:, None, None] * distance
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 + bias
    scores = scores.masked_fill(distance > 0, -torch.inf)
    return torch.softmax(scores, dim=-1) @ v
