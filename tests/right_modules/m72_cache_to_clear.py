"""Every call goes on from the one before it, until clear_cache(): no argument turns that off."""

import torch
from torch import nn


class StreamingAttention(nn.Module):
    """Causal self-attention over a text that arrives in pieces x: (B, T, d_model)."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = d_model // n_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.o_proj = nn.Linear(d_model, d_model, bias=False)
        self.cache = None

    def clear_cache(self):
        """Start a new text."""
        self.cache = None

    def heads(self, x):
        return x.view(x.shape[0], x.shape[1], self.n_heads, self.head_dim).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.heads(proj(x)) for proj in (self.q_proj, self.k_proj, self.v_proj))
        if self.cache is not None:
            k = torch.cat([self.cache[0], k], dim=2)
            v = torch.cat([self.cache[1], v], dim=2)
        self.cache = (k, v)
        new, total = q.shape[2], k.shape[2]
        seen = torch.ones(new, total, dtype=torch.bool, device=x.device).tril(total - new)
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        return self.o_proj((weights @ v).transpose(1, 2).flatten(2))
