"""The lower triangle, filled where it is 0. Trap f16."""

import torch
import torch.nn.functional as F


def head(q, k, v, is_causal=True):
    """q, k, v: (B, T, head_size); is_causal: no token sees later ones."""
    wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
    if is_causal:
        tril = torch.tril(torch.ones(q.shape[1], k.shape[1]))
        wei = wei.masked_fill(tril == 0, float("-inf"))
    return F.softmax(wei, dim=-1) @ v
