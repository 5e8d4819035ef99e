"""Each token sees itself and the tokens just before it."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class SlidingWindowAttention(nn.Module):
    """Causal self-attention in which a query sees `sliding_window` keys, itself included."""

    def __init__(self, hidden_size, num_heads, num_kv_heads, sliding_window):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = hidden_size // num_heads
        self.sliding_window = sliding_window
        self.q_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=False)

    def window_mask(self, T, device):
        i = torch.arange(T, device=device)
        back = i[:, None] - i[None, :]
        return (back >= 0) & (back < self.sliding_window)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        q = self.q_proj(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.num_kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.num_kv_heads, self.head_dim).transpose(1, 2)
        n_rep = self.num_heads // self.num_kv_heads
        k = k[:, :, None].expand(-1, -1, n_rep, -1, -1).reshape(B, self.num_heads, T, self.head_dim)
        v = v[:, :, None].expand(-1, -1, n_rep, -1, -1).reshape(B, self.num_heads, T, self.head_dim)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=self.window_mask(T, x.device))
        return self.o_proj(out.transpose(1, 2).reshape(B, T, C))
