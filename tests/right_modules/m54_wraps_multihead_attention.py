"""PyTorch's own layer behind a mask of real tokens."""

import torch
from torch import nn


class MaskedSelfAttention(nn.Module):
    """Self-attention over x: (B, T, d_model); real_tokens: bool (B, T), True = a token, False = padding."""

    def __init__(self, d_model: int, nhead: int, dropout: float = 0.1):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=True)

    def forward(self, x: torch.Tensor, real_tokens: torch.Tensor | None = None) -> torch.Tensor:
        hidden = None if real_tokens is None else ~real_tokens
        out, _ = self.attn(x, x, x, key_padding_mask=hidden, need_weights=False)
        return out
