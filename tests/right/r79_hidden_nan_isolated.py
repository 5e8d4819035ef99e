"""Hidden keys and values may be NaN; they never reach the output."""

import torch


def attention(q, k, v, mask):
    """q, k, v: (B, H, T, d); mask: bool (B, T_k), True = written. Other positions may hold uninitialised memory."""
    written = mask[:, None, :, None]
    k, v = k.masked_fill(~written, 0.0), v.masked_fill(~written, 0.0)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores.masked_fill(~mask[:, None, None, :], -torch.inf).softmax(-1) @ v
