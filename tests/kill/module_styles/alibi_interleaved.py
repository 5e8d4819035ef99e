"""Causal attention with ALiBi and a fused projection that is interleaved by head."""

import torch
import torch.nn as nn


def build_alibi_slopes(num_heads):
    """(num_heads,): 2 ** (-8 / num_heads) and its powers."""
    base = 2.0 ** (-8.0 / num_heads)
    return torch.tensor([base ** (head + 1) for head in range(num_heads)])


class AlibiAttention(nn.Module):
    """Causal self-attention whose scores fall with the distance; rows of query_key_value: q, k, v of each head in turn.

    hidden_states: (B, T, hidden_size)
    attention_mask: int or bool (B, T); 1 = a real token that may be attended to, 0 = padding.

    A query that may look nowhere averages all values.
    Returns outputs (B, T, hidden_size) and attention_probs (B, num_heads, T, T).
    """

    def __init__(self, hidden_size, num_heads, attention_dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = hidden_size // num_heads
        self.inv_norm_factor = 1.0 / self.head_dim**0.5
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.attention_dropout = nn.Dropout(attention_dropout)
        self.register_buffer("slopes", build_alibi_slopes(num_heads), persistent=False)

    def forward(self, hidden_states, attention_mask=None):
        B, T, _ = hidden_states.shape
        fused_qkv = self.query_key_value(hidden_states).view(B, T, self.num_heads, 3, self.head_dim)
        query_layer, key_layer, value_layer = fused_qkv.permute(3, 0, 2, 1, 4)

        index = torch.arange(T, device=hidden_states.device)
        offset = index[None, :] - index[:, None]  # key position minus query position: 0 or less
        alibi = self.slopes[:, None, None].to(hidden_states.dtype) * offset
        allowed = offset <= 0
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, None, :].bool()

        attention_scores = query_layer @ key_layer.transpose(-1, -2)
        attention_scores = attention_scores * self.inv_norm_factor
        attention_scores = attention_scores + alibi
        attention_scores = attention_scores.masked_fill(~allowed, torch.finfo(attention_scores.dtype).min)
        attention_probs = attention_scores.softmax(dim=-1)
        attention_probs = self.attention_dropout(attention_probs)
        context_layer = attention_probs @ value_layer
        context_layer = context_layer.permute(0, 2, 1, 3).reshape(B, T, -1)
        return self.dense(context_layer), attention_probs
