"""Report b057: https://github.com/pytorch/pytorch/issues/131254

What is wrong: is_causal=True makes nn.MultiheadAttention use a triangle of its own and drop the mask that was passed.
"""

import torch
from torch import nn


class SelfAttentionBlock(nn.Module):
    """The attention of an encoder layer; src: (batch, length, d_model)."""

    def __init__(self, d_model, nhead, dropout=0.0):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=True)

    def forward(self, src, src_mask=None, is_causal=False):
        """src: (batch, length, d_model)

        src_mask: (length, length) bool, True = may not attend
        is_causal: hide the later positions as well, whatever src_mask hides
        """
        if is_causal:
            future = torch.ones(src.shape[1], src.shape[1], dtype=torch.bool, device=src.device).triu(1)
            src_mask = future if src_mask is None else src_mask | future
        return self.self_attn(src, src, src, attn_mask=src_mask, need_weights=False, is_causal=is_causal)[0]  # bug
