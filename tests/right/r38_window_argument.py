"""A causal sliding window, given by argument."""

import torch


def local_attention(q, k, v, window_size=None):
    """Causal attention. q, k, v: (B, H, T, d); window_size: keys each query sees, itself included; None = all before."""
    i = torch.arange(q.shape[-2])[:, None]
    j = torch.arange(k.shape[-2])[None, :]
    seen = j <= i
    if window_size is not None:
        seen &= i - j < window_size
    scores = (q @ k.mT) / q.shape[-1] ** 0.5
    return scores.masked_fill(~seen, -torch.inf).softmax(-1) @ v
