"""Many query heads, one head of keys and values that all of them share."""

import torch
from torch import nn


class MultiQueryAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, attn_pdrop: float = 0.1):
        super().__init__()
        self.d_model, self.n_heads = d_model, n_heads
        self.head_dim = d_model // n_heads
        self.Wqkv = nn.Linear(d_model, d_model + 2 * self.head_dim)
        self.attn_dropout = nn.Dropout(attn_pdrop)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x: torch.Tensor, key_padding_mask: torch.Tensor | None = None) -> torch.Tensor:
        """Causal. key_padding_mask: bool (batch, length), True = a real token, False = padding."""
        b, s, _ = x.shape
        q, k, v = self.Wqkv(x).split([self.d_model, self.head_dim, self.head_dim], dim=-1)
        q = q.view(b, s, self.n_heads, self.head_dim)
        scores = torch.einsum("bihd,bjd->bhij", q, k) / self.head_dim**0.5
        allowed = torch.ones(s, s, dtype=torch.bool, device=x.device).tril()
        if key_padding_mask is not None:
            allowed = allowed & key_padding_mask[:, None, None, :]
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        weights = self.attn_dropout(scores.softmax(dim=-1))
        return self.out_proj(torch.einsum("bhij,bjd->bihd", weights, v).reshape(b, s, -1))
