"""Report b041: https://github.com/line/lighthouse/pull/77

What is wrong: nn.MultiheadAttention reads mask b * nhead + h for head h of sample b; the copies lie in the other order.
"""

from torch import nn


class ClipWordAttention(nn.Module):
    """Self-attention over the clips and words of a video; src: (L, batch, d_model), sequence first."""

    def __init__(self, d_model=256, nhead=8, dropout=0.1):
        super().__init__()
        self.nhead = nhead
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)

    def forward(self, src, src_mask):
        """src_mask: (batch, L, L) bool, True = may not attend."""
        attn_mask = src_mask.repeat(self.nhead, 1, 1)  # bug
        return self.self_attn(src, src, value=src, attn_mask=attn_mask, need_weights=False)[0]
