"""Report b200: https://github.com/pytorch/pytorch/issues/97111

What is wrong: the nested tensor is padded to its own longest sample; positions that are padding everywhere are cut off.
"""

import torch
import torch.nn.functional as F
from torch import nn


class PackedSelfAttention(nn.Module):
    """Self-attention that skips padding in evaluation; (batch, length, d_model), padding comes out as zeros."""

    def __init__(self, d_model, nhead):
        super().__init__()
        self.nhead = nhead
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def attend(self, x, hidden=None):
        q, k, v = (t.unflatten(-1, (self.nhead, -1)).transpose(-3, -2) for t in self.in_proj(x).chunk(3, dim=-1))
        mask = None if hidden is None else ~hidden[:, None, None, :]
        return self.out_proj(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(-3, -2).flatten(-2))

    def forward(self, src, src_key_padding_mask=None):
        """src_key_padding_mask: (batch, length) bool, True = padding"""
        if src_key_padding_mask is None:
            return self.attend(src)
        real = ~src_key_padding_mask
        lengths = real.sum(dim=1)
        padded_on_the_right = bool((real.int().diff(dim=1) <= 0).all() and (lengths > 0).all())
        if self.training or not padded_on_the_right:
            return self.attend(src, src_key_padding_mask).masked_fill(src_key_padding_mask[..., None], 0.0)
        packed = torch.nested.nested_tensor([self.attend(x[:n]) for x, n in zip(src, lengths.tolist())])
        return torch.nested.to_padded_tensor(packed, 0.0)  # bug
