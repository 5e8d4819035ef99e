"""Report b124: https://github.com/tenstorrent/tt-metal/issues/33304

What is wrong: the scale of the caller is never read.
"""

import torch


def sdpa_decode(query, key, value, attn_mask=None, scale=None):
    """query: (B, H, T_q, d)   key, value: (B, H, T_k, d).

    attn_mask: additive bias, broadcastable to (B, H, T_q, T_k)
    scale: factor on the scores; None means 1/sqrt(d)
    """
    scores = query @ key.mT
    scores = scores * query.shape[-1] ** -0.5  # bug
    if attn_mask is not None:
        scores = scores + attn_mask.to(scores.dtype)
    return torch.softmax(scores, dim=-1) @ value
