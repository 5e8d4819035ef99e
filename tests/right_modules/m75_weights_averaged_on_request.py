"""Weights only when asked for, and then averaged over the heads as the documentation says; else None."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, embed_dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x, key_padding_mask=None, need_weights: bool = False):
        """
        x: (B, T, embed_dim)
        key_padding_mask: bool (B, T), True at padding
        need_weights: also return the weights, averaged over the heads: (B, T, T); otherwise None
        """
        q, k, v = (
            proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        visible = None if key_padding_mask is None else ~key_padding_mask[:, None, None, :]
        if not need_weights:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
            return self.out_proj(y.transpose(1, 2).flatten(2)), None
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
        if visible is not None:
            scores = scores.masked_fill(~visible, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights.mean(dim=1)
