"""A class whose constructor takes the divisor and the dropout; the mask is 0 where a key is hidden."""

import torch
from torch import nn


class ScaledDotProductAttention(nn.Module):
    """Attention with a given temperature, the square root of d_k."""

    def __init__(self, temperature, attn_dropout=0.1):
        super().__init__()
        self.temperature = temperature
        self.dropout = nn.Dropout(attn_dropout)

    def forward(self, q, k, v, mask=None):
        """q, k, v: (B, n_head, len, d_k); mask: 0 = hidden, 1 = visible."""
        attn = torch.matmul(q / self.temperature, k.transpose(2, 3))
        if mask is not None:
            attn = attn.masked_fill(mask == 0, torch.finfo(attn.dtype).min)
        attn = self.dropout(torch.softmax(attn, dim=-1))
        return torch.matmul(attn, v), attn
