"""Report b135: https://github.com/gazelle93/Transformer-Various-Positional-Encoding/issues/1

What is wrong: the heads come first and the batch second, and they are merged as if it were the other way round.
"""

import torch
import torch.nn.functional as F
from torch import nn


class MultiHeadAttention(nn.Module):
    """Self-attention with one projection per head; x: [batch_size, seq_len, emb_dim]."""

    def __init__(self, emb_dim, num_heads):
        super().__init__()
        self.head_dim = emb_dim // num_heads
        self.q_projs = nn.ModuleList([nn.Linear(emb_dim, self.head_dim) for _ in range(num_heads)])
        self.k_projs = nn.ModuleList([nn.Linear(emb_dim, self.head_dim) for _ in range(num_heads)])
        self.v_projs = nn.ModuleList([nn.Linear(emb_dim, self.head_dim) for _ in range(num_heads)])
        self.output_proj = nn.Linear(emb_dim, emb_dim)

    def forward(self, x):
        batch_size, seq_len, emb_dim = x.shape
        query = torch.stack([proj(x) for proj in self.q_projs])  # [num_heads, batch_size, seq_len, head_dim]
        key = torch.stack([proj(x) for proj in self.k_projs])
        value = torch.stack([proj(x) for proj in self.v_projs])
        attention = F.softmax(query @ key.transpose(-1, -2) / self.head_dim**0.5, dim=-1)
        context = attention @ value
        context = context.permute(0, 2, 1, 3)  # bug
        return self.output_proj(context.reshape(batch_size, seq_len, emb_dim))
