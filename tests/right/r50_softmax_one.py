"""One is added to the denominator, as declared: a head may attend to nothing. Trap f13."""

import torch


def softmax1(x):
    top = x.amax(dim=-1, keepdim=True).clamp(min=0.0)
    e = torch.exp(x - top)
    return e / (e.sum(dim=-1, keepdim=True) + torch.exp(-top))


def quiet_attention(q, k, v):
    """Attention with softmax1, exp(x_i) / (1 + sum_j exp(x_j)): weights may sum to less than one.

    q, k, v: (B, H, T, d)
    """
    return softmax1(q @ k.mT / q.shape[-1] ** 0.5) @ v
