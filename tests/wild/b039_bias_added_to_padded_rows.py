"""Report b039: https://github.com/lsdefine/attention-is-all-you-need-keras/issues/16

What is wrong: the padding bias gets its new axis at the end and is added to whole rows.
"""

import torch


def sentence_attention(q, k, v, mask=None):
    """q, k, v: (batch, steps, units); mask: (batch, steps), 1.0 for words and 0.0 for padding."""
    temper = q.shape[-1] ** 0.5
    attn = torch.einsum("bqd,bkd->bqk", q, k) / temper
    if mask is not None:
        minus = (1.0 - mask.to(attn.dtype)) * -1e4
        attn = attn + minus[:, :, None]  # bug
    attn = torch.softmax(attn, dim=-1)
    return torch.einsum("bqk,bkd->bqd", attn, v), attn
