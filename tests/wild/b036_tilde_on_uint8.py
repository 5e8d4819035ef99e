"""Report b036: https://github.com/pytorch/pytorch/issues/24180

What is wrong: `~` on a byte mask gives 254 and 255, both true, so every key is filled.
"""

import torch


def legacy_attention(q, k, v, mask: torch.ByteTensor):
    """q, k, v: (B, T, d); mask: uint8 (B, T_q, T_k), 1 = keep, 0 = drop (bool works as well)."""
    scores = torch.bmm(q, k.transpose(1, 2)) * q.size(-1) ** -0.5
    drop = ~mask  # bug
    scores = scores.masked_fill(drop.bool(), torch.finfo(scores.dtype).min)
    return torch.bmm(scores.softmax(-1), v)
