"""Arguments in the order query, value, key."""

import torch


class DotAttention:
    """Attention called as (query, value, key), each (batch, tokens, width)."""

    def __call__(self, query, value, key, mask=None):
        """mask: bool (batch, T_k), True = use this key."""
        scores = query @ key.transpose(1, 2) * query.shape[-1] ** -0.5
        if mask is not None:
            scores = torch.where(mask[:, None, :], scores, torch.finfo(scores.dtype).min)
        return scores.softmax(-1) @ value
