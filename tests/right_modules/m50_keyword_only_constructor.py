"""Constructor and call take keywords only."""

import torch
from torch import nn


class Attention(nn.Module):
    """Multi-head attention from `inputs` to `memory`; `memory_is_padding` is True where memory is padding."""

    def __init__(self, *, features: int, num_heads: int, qkv_features: int | None = None, use_bias: bool = True):
        super().__init__()
        inner = qkv_features or features
        self.num_heads = num_heads
        self.query = nn.Linear(features, inner, bias=use_bias)
        self.key = nn.Linear(features, inner, bias=use_bias)
        self.value = nn.Linear(features, inner, bias=use_bias)
        self.out = nn.Linear(inner, features, bias=use_bias)

    def forward(self, *, inputs: torch.Tensor, memory: torch.Tensor, memory_is_padding: torch.Tensor | None = None):
        q = self.query(inputs).unflatten(-1, (self.num_heads, -1))
        k = self.key(memory).unflatten(-1, (self.num_heads, -1))
        v = self.value(memory).unflatten(-1, (self.num_heads, -1))
        logits = torch.einsum("bthd,bshd->bhts", q / q.shape[-1] ** 0.5, k)
        if memory_is_padding is not None:
            logits = logits.masked_fill(memory_is_padding[:, None, None, :], float("-inf"))
        return self.out(torch.einsum("bhts,bshd->bthd", torch.softmax(logits, dim=-1), v).flatten(-2))
