"""The first half of each head turns, with a base that grows with the wanted length (NTK-aware scaling)."""

import torch
from torch import nn


class PartlyRotaryAttention(nn.Module):
    """Self-attention over all tokens. hidden_states: (B, T, hidden_size)"""

    def __init__(self, hidden_size, num_heads, rotary_base=10000.0, ntk_alpha=5.0):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = hidden_size // num_heads
        self.turning = self.head_dim // 2
        self.q_proj = nn.Linear(hidden_size, hidden_size)
        self.k_proj = nn.Linear(hidden_size, hidden_size)
        self.v_proj = nn.Linear(hidden_size, hidden_size)
        self.o_proj = nn.Linear(hidden_size, hidden_size)
        base = rotary_base * ntk_alpha ** (self.turning / (self.turning - 2))
        self.inv_freq = [base ** (-2 * pair / self.turning) for pair in range(self.turning // 2)]

    def apply_rotary(self, x):  # (B, T, H, d)
        angles = torch.outer(torch.arange(x.shape[1]).float(), torch.tensor(self.inv_freq))[:, None]
        cos, sin = (t.repeat(1, 1, 2).to(x.dtype) for t in (angles.cos(), angles.sin()))
        part, rest = x[..., : self.turning], x[..., self.turning :]
        a, b = part.chunk(2, dim=-1)
        return torch.cat((part * cos + torch.cat((-b, a), dim=-1) * sin, rest), dim=-1)

    def forward(self, hidden_states):
        heads = hidden_states.shape[0], hidden_states.shape[1], self.num_heads, self.head_dim
        q = self.apply_rotary(self.q_proj(hidden_states).view(heads)).transpose(1, 2)
        k = self.apply_rotary(self.k_proj(hidden_states).view(heads)).transpose(1, 2)
        v = self.v_proj(hidden_states).view(heads).transpose(1, 2)
        weights = (q @ k.mT * self.head_dim**-0.5).softmax(dim=-1)
        return self.o_proj((weights @ v).transpose(1, 2).flatten(2))
