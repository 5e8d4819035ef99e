"""The mask comes inside an object; without one, the module makes the causal one itself."""

import torch
from torch import nn


class TriangularMask:
    """mask: (B, 1, L, L), True = hidden."""

    def __init__(self, count, length):
        ones = torch.ones(count, 1, length, length, dtype=torch.bool)
        self.mask = ones.triu(diagonal=1)


class CausalAttention(nn.Module):
    """queries, keys, values: (B, L, H, E); a mask is used when mask_flag is True."""

    def __init__(self, mask_flag=True, attention_dropout=0.1):
        super().__init__()
        self.mask_flag = mask_flag
        self.dropout = nn.Dropout(attention_dropout)

    def forward(self, queries, keys, values, attn_mask):
        B, L, _, E = queries.shape
        scores = torch.einsum("blhe,bshe->bhls", queries, keys)
        if self.mask_flag:
            if attn_mask is None:
                attn_mask = TriangularMask(B, L)
            scores.masked_fill_(attn_mask.mask, -torch.inf)
        weights = self.dropout(torch.softmax(scores / E**0.5, dim=-1))
        return torch.einsum("bhls,bshd->blhd", weights, values).contiguous(), None
