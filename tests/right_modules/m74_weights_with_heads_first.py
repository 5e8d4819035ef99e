"""Heads stand before the batch in everything, also in the weights that come back: (H, B, T_q, T_k)."""

import torch
from torch import nn


class HeadsFirstAttention(nn.Module):
    """forward(q, k, v, mask): (B, T, d_model) each; mask (B, T_q, T_k), True = may not be looked at."""

    def __init__(self, n_head, d_model, dropout=0.1):
        super().__init__()
        self.n_head = n_head
        self.w_qs = nn.Linear(d_model, d_model)
        self.w_ks = nn.Linear(d_model, d_model)
        self.w_vs = nn.Linear(d_model, d_model)
        self.fc = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def heads_first(self, x):
        batch, length, _ = x.shape
        return x.view(batch, length, self.n_head, -1).permute(2, 0, 1, 3)  # (H, B, T, d)

    def forward(self, q, k, v, mask=None):
        q, k, v = (
            self.heads_first(self.w_qs(q)),
            self.heads_first(self.w_ks(k)),
            self.heads_first(self.w_vs(v)),
        )
        scores = torch.einsum("hbqd,hbkd->hbqk", q, k) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask[None], float("-inf"))
        attn = scores.softmax(dim=-1)
        output = torch.einsum("hbqk,hbkd->bqhd", self.dropout(attn), v).flatten(2)
        return self.fc(output), attn
