"""One class for encoder and decoder; masks are bool, True hides, and both kinds may be given."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """Attention with an optional causal rule: pass `causal=True` in the decoder."""

    def __init__(self, hid_dim, n_heads, dropout):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = hid_dim // n_heads
        self.fc_q = nn.Linear(hid_dim, hid_dim)
        self.fc_k = nn.Linear(hid_dim, hid_dim)
        self.fc_v = nn.Linear(hid_dim, hid_dim)
        self.fc_o = nn.Linear(hid_dim, hid_dim)
        self.dropout = nn.Dropout(dropout)
        self.scale = self.head_dim**0.5

    def forward(self, query, key, value, ignore_mask=None, causal=False):
        """ignore_mask: bool (batch, key length), True = ignored"""
        batch = query.shape[0]
        Q = self.fc_q(query).view(batch, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        K = self.fc_k(key).view(batch, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        V = self.fc_v(value).view(batch, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        energy = torch.matmul(Q, K.permute(0, 1, 3, 2)) / self.scale
        if ignore_mask is not None:
            energy = energy.masked_fill(ignore_mask[:, None, None], -1e10)
        if causal:
            later = torch.ones(energy.shape[-2:], dtype=torch.bool, device=energy.device).triu(1)
            energy = energy.masked_fill(later, -1e10)
        attention = torch.softmax(energy, dim=-1)
        x = torch.matmul(self.dropout(attention), V).permute(0, 2, 1, 3).contiguous()
        return self.fc_o(x.view(batch, -1, self.n_heads * self.head_dim)), attention
