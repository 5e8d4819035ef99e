"""A learned logit for each head joins the softmax and is dropped again. Trap f13."""

import torch
from torch import nn


class AttentionWithSinks(nn.Module):
    """Causal self-attention; the weights over the keys sum to less than one, the sink takes the rest."""

    def __init__(self, hidden_size: int, num_attention_heads: int, num_key_value_heads: int):
        super().__init__()
        self.n_heads, self.n_kv = num_attention_heads, num_key_value_heads
        self.head_dim = hidden_size // num_attention_heads
        self.sinks = nn.Parameter(torch.linspace(-1.0, 1.0, num_attention_heads))
        self.qkv = nn.Linear(hidden_size, (self.n_heads + 2 * self.n_kv) * self.head_dim)
        self.out = nn.Linear(self.n_heads * self.head_dim, hidden_size)
        self.sm_scale = self.head_dim**-0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, _ = x.shape
        qkv = self.qkv(x).view(B, T, self.n_heads + 2 * self.n_kv, self.head_dim)
        q, k, v = qkv.split([self.n_heads, self.n_kv, self.n_kv], dim=2)
        q = q.view(B, T, self.n_kv, -1, self.head_dim)  # (B, T, kv heads, queries of each, d)
        scores = torch.einsum("bqhmd,bkhd->bhmqk", q, k) * self.sm_scale
        scores = scores + torch.triu(scores.new_full((T, T), -float("inf")), diagonal=1)
        sink = self.sinks.view(1, self.n_kv, -1, 1, 1).expand(B, -1, -1, T, 1)
        weights = torch.softmax(torch.cat([scores, sink.to(scores.dtype)], dim=-1), dim=-1)[..., :-1]
        out = torch.einsum("bhmqk,bkhd->bqhmd", weights, v)
        return self.out(out.reshape(B, T, -1))
