"""Report b156: https://github.com/raiyanyahya/how-to-train-your-gpt/issues/6

What is wrong: neighbouring features get the same angle, but feature i is turned together with feature i + d/2.
"""

import torch
import torch.nn.functional as F
from torch import nn


class CausalSelfAttention(nn.Module):
    """Causal attention with rotary positions; x: (B, T, n_embd)."""

    def __init__(self, n_embd, n_head, rope_base=10000.0):
        super().__init__()
        self.n_head = n_head
        self.head_dim = n_embd // n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=False)
        self.register_buffer("inv_freq", rope_base ** (-torch.arange(0, self.head_dim, 2) / self.head_dim))

    def rotate(self, x):
        """x: (B, n_head, T, head_dim)"""
        angles = torch.outer(torch.arange(x.shape[2], device=x.device), self.inv_freq)
        angles = angles.repeat_interleave(2, dim=-1)  # bug
        x1, x2 = x.chunk(2, dim=-1)
        return x * angles.cos() + torch.cat((-x2, x1), dim=-1) * angles.sin()

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.n_head, self.head_dim).transpose(1, 2) for t in self.c_attn(x).split(C, dim=2))
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))
