"""Report b023: https://github.com/espnet/espnet/pull/1273

What is wrong: masked_fill returns a new tensor, and nobody keeps it.
"""

import math

import torch


def forward_attention(query, key, value, mask):
    """Weigh the values of an encoder layer.

    query, key, value: (batch, head, time, d_k)
    mask: (batch, 1, time2), 1 for real frames, 0 for padding; None for no padding
    """
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        mask = mask.unsqueeze(1).eq(0)  # (batch, 1, 1, time2)
        min_value = torch.finfo(scores.dtype).min
        scores.masked_fill(mask, min_value)  # bug
    attn = torch.softmax(scores, dim=-1)
    return torch.matmul(attn, value)
