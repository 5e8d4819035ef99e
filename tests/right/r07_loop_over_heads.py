"""One head after the other, then stacked."""

import torch


def multi_head(q, k, v, mask=None):
    """q, k, v: (B, H, T, d); mask: bool (B, T_q, T_k), True = attend."""
    heads = []
    for h in range(q.size(1)):
        s = q[:, h] @ k[:, h].transpose(-1, -2) / q.size(-1) ** 0.5
        if mask is not None:
            s = s.masked_fill(mask.logical_not(), float("-inf"))
        heads.append(s.softmax(-1) @ v[:, h])
    return torch.stack(heads, dim=1)
