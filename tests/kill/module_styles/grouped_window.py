"""Sliding-window attention with shared key/value heads and rotary positions over neighbouring channels."""

import torch
import torch.nn.functional as F
from torch import nn


def repeat_kv(hidden_states, n_rep):
    """(B, kv_heads, T, d) -> (B, kv_heads * n_rep, T, d): every head n_rep times in a row."""
    B, kv_heads, T, d = hidden_states.shape
    hidden_states = hidden_states[:, :, None, :, :].expand(B, kv_heads, n_rep, T, d)
    return hidden_states.reshape(B, kv_heads * n_rep, T, d)


def rotate_every_two(x):
    x1, x2 = x[..., ::2], x[..., 1::2]
    return torch.stack([-x2, x1], dim=-1).flatten(-2)


class SlidingWindowAttention(nn.Module):
    """Causal self-attention in which a token sees the last ``sliding_window`` tokens, itself included.

    hidden_states: (B, T, hidden_size)
    attention_mask: int or bool (B, T); 1 = a real token that may be attended to, 0 = padding.

    num_attention_heads // num_key_value_heads consecutive query heads share a key/value head.
    A query that may look nowhere mixes no values.
    Returns attn_output (B, T, hidden_size) and attn_weights (B, num_attention_heads, T, T).
    """

    def __init__(self, hidden_size, num_attention_heads, num_key_value_heads, sliding_window=4, dropout=0.0):
        super().__init__()
        self.head_dim = hidden_size // num_attention_heads
        self.num_key_value_groups = num_attention_heads // num_key_value_heads
        self.scaling = self.head_dim**-0.5
        self.sliding_window = sliding_window
        self.attention_dropout = dropout
        self.q_proj = nn.Linear(hidden_size, num_attention_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_key_value_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_key_value_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(num_attention_heads * self.head_dim, hidden_size, bias=False)

    def apply_rotary(self, x):
        """Turn x (B, heads, T, head_dim) by its positions: channel 2 i pairs with channel 2 i + 1."""
        inv_freq = 10000.0 ** (-torch.arange(0, self.head_dim, 2, device=x.device).float() / self.head_dim)
        position = torch.arange(x.shape[2], device=x.device).float()
        angles = torch.outer(position, inv_freq).repeat_interleave(2, dim=-1)
        return x * angles.cos().to(x.dtype) + rotate_every_two(x) * angles.sin().to(x.dtype)

    def forward(self, hidden_states, attention_mask=None):
        B, T, _ = hidden_states.shape
        hidden_shape = (B, T, -1, self.head_dim)
        query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        query_states, key_states = self.apply_rotary(query_states), self.apply_rotary(key_states)
        key_states = repeat_kv(key_states, self.num_key_value_groups)
        value_states = repeat_kv(value_states, self.num_key_value_groups)

        i = torch.arange(T, device=hidden_states.device)[:, None]
        j = torch.arange(T, device=hidden_states.device)[None, :]
        visible = (j <= i) & (j > i - self.sliding_window)
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, None, :].bool()
        nowhere = ~visible.any(dim=-1, keepdim=True)

        attn_weights = torch.matmul(query_states, key_states.transpose(2, 3))
        attn_weights = attn_weights * self.scaling
        attn_weights = attn_weights.masked_fill(~(visible | nowhere), float("-inf"))
        attn_weights = F.softmax(attn_weights, dim=-1)
        attn_weights = attn_weights.masked_fill(nowhere, 0.0)
        attn_weights = F.dropout(attn_weights, p=self.attention_dropout, training=self.training)
        attn_output = torch.matmul(attn_weights, value_states)
        attn_output = attn_output.transpose(1, 2).reshape(B, T, -1)
        return self.o_proj(attn_output), attn_weights
