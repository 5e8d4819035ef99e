"""Grouped-query attention that never copies the shared keys and values, over packed documents."""

import torch
from torch import nn


class PackedGroupedAttention(nn.Module):
    """Self-attention within documents; each key/value head serves a group of consecutive query heads.

    x: (B, T, d_model)
    document_ids: int (B, T); a token sees only tokens of its own document.
    scale: factor on the scores, 1 / sqrt(d_head) when None.

    Returns (B, T, d_model).
    """

    def __init__(self, d_model, num_heads, num_kv_heads, dropout=0.0):
        super().__init__()
        self.H_kv = num_kv_heads
        self.G = num_heads // num_kv_heads
        self.d_head = d_model // num_heads
        self.q = nn.Linear(d_model, num_heads * self.d_head)
        self.k = nn.Linear(d_model, num_kv_heads * self.d_head)
        self.v = nn.Linear(d_model, num_kv_heads * self.d_head)
        self.o = nn.Linear(num_heads * self.d_head, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, document_ids=None, scale=None):
        B, T, _ = x.shape
        if scale is None:
            scale = self.d_head**-0.5
        q = self.q(x).reshape(B, T, self.H_kv, self.G, self.d_head)
        k = self.k(x).reshape(B, T, self.H_kv, self.d_head)
        v = self.v(x).reshape(B, T, self.H_kv, self.d_head)

        scores = torch.einsum("bqngd,bknd->bngqk", q, k)
        scores = scores * scale
        if document_ids is not None:
            same = document_ids[:, :, None] == document_ids[:, None, :]
            scores = scores.masked_fill(~same[:, None, None], float("-inf"))
        weights = scores.softmax(dim=-1)
        weights = self.dropout(weights)
        mixed = torch.einsum("bngqk,bknd->bqngd", weights, v)
        return self.o(mixed.reshape(B, T, -1))
