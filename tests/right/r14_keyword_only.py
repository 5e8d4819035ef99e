"""Everything by keyword."""

import torch


def attend(*, query, key, value, allowed=None, scale=None):
    """query, key, value: [..., T, d]; allowed: bool [T_q, T_k], True = visible; scale: 1/sqrt(d) by default."""
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    return torch.softmax(scores, dim=-1) @ value
