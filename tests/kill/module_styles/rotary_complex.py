"""Causal attention over packed documents with rotary positions as complex numbers."""

import torch
from torch import nn


def turns(T, d_head, device, theta=10000.0):
    """(T, d_head / 2) complex: e^(i * position * frequency)."""
    freqs = theta ** (-torch.arange(0, d_head, 2, device=device).float() / d_head)
    angles = torch.outer(torch.arange(T, device=device).float(), freqs)
    return torch.polar(torch.ones_like(angles), angles)


def apply_rotary(x):
    """Turn x (B, T, heads, d_head): channels 2 i and 2 i + 1 are one complex number."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    pairs = torch.view_as_complex(wide.unflatten(-1, (-1, 2)).contiguous())
    freqs_cis = turns(x.shape[1], x.shape[-1], x.device)[:, None, :]
    return torch.view_as_real(pairs * freqs_cis).flatten(-2).to(x.dtype)


class RotaryAttention(nn.Module):
    """Causal self-attention; the rows of wqkv are all queries, then all keys, then all values.

    x: (B, T, d_model)
    document_ids: int (B, T); a token sees only tokens of its own document.

    Returns (B, T, d_model).
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.wqkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.wo = nn.Linear(d_model, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, document_ids=None):
        B, T, d_model = x.shape
        q, k, v = self.wqkv(x).view(B, T, 3, self.num_heads, self.d_head).unbind(dim=2)
        q, k = apply_rotary(q), apply_rotary(k)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)

        allowed = torch.ones(1, 1, T, T, dtype=torch.bool, device=x.device).tril()
        if document_ids is not None:
            same = document_ids.unsqueeze(2) == document_ids.unsqueeze(1)
            allowed = allowed & same.unsqueeze(1)
        scores = q @ k.transpose(-2, -1)
        scores = scores / self.d_head**0.5
        scores = scores.masked_fill(~allowed, float("-inf"))
        weights = self.dropout(scores.softmax(dim=-1))
        output = weights @ v
        output = output.transpose(1, 2).reshape(B, T, d_model)
        return self.wo(output)
