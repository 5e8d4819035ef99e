"""Grouped key/value heads; cosines and sines come from the model. Trap f14."""

import torch
from torch import nn


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class GroupedQueryAttention(nn.Module):
    def __init__(self, hidden_size, num_attention_heads, num_key_value_heads, attention_dropout=0.0):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_attention_heads, num_key_value_heads
        self.head_dim = hidden_size // num_attention_heads
        self.dropout = attention_dropout
        self.q_proj = nn.Linear(hidden_size, num_attention_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_key_value_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_key_value_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(num_attention_heads * self.head_dim, hidden_size, bias=False)

    def forward(self, hidden_states, position_embeddings, attention_mask=None):
        """position_embeddings: (cos, sin), each (batch, length, head_dim); attention_mask: additive,
        (batch, 1, length, length), or None for full visibility."""
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        q = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        k = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        v = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        q, k = apply_rotary_pos_emb(q, k, *position_embeddings)
        groups = self.num_heads // self.num_kv_heads
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        weights = q @ k.transpose(2, 3) * self.head_dim**-0.5
        if attention_mask is not None:
            weights = weights + attention_mask[:, :, :, : k.shape[-2]]
        weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
        weights = nn.functional.dropout(weights, p=self.dropout, training=self.training)
        out = (weights @ v).transpose(1, 2).contiguous()
        return self.o_proj(out.reshape(*hidden_states.shape[:-1], -1)), weights
