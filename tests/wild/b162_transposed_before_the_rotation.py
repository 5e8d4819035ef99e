"""Report b162: https://github.com/tensorgi/TPA/issues/4

What is wrong: the rotation takes the length from axis 1, and axis 1 is that of the heads by then.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class GPTConfig:
    n_embd: int = 24
    n_head: int = 3


class Rotary(nn.Module):
    """cos and sin for every position along axis 1 of a (B, T, n_head, head_dim) tensor."""

    def __init__(self, dim, base=10000):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (base ** (torch.arange(0, dim, 2) / dim)))

    def forward(self, x):
        freqs = torch.outer(torch.arange(x.shape[1], device=x.device), self.inv_freq)
        return freqs.cos()[None, :, None, :], freqs.sin()[None, :, None, :]


def apply_rotary_emb(x, cos, sin):
    x1, x2 = x.chunk(2, dim=3)
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=3)


class CausalSelfAttention(nn.Module):
    """Causal attention with rotary positions; x: (B, T, n_embd)."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.n_head, self.head_dim = config.n_head, config.n_embd // config.n_head
        self.c_q = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.c_k = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.c_v = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.rotary = Rotary(self.head_dim)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (c(x).view(B, T, self.n_head, self.head_dim).transpose(1, 2) for c in (self.c_q, self.c_k, self.c_v))
        q, k = (apply_rotary_emb(t, *self.rotary(t)) for t in (q, k))  # bug
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))
