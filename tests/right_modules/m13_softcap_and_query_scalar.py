"""Scores run through a soft cap; the scale comes from the configuration. Trap f10."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class CappedConfig:
    hidden_size: int = 48
    num_attention_heads: int = 6
    num_key_value_heads: int = 3
    head_dim: int = 8
    query_pre_attn_scalar: float = 12.0
    attn_logit_softcapping: float = 5.0


class CappedAttention(nn.Module):
    """Self-attention; the scores are divided by the root of query_pre_attn_scalar, then soft-capped."""

    def __init__(self, config: CappedConfig):
        super().__init__()
        self.config = config
        self.head_dim = config.head_dim
        self.groups = config.num_attention_heads // config.num_key_value_heads
        self.scaling = config.query_pre_attn_scalar**-0.5
        self.q_proj = nn.Linear(config.hidden_size, config.num_attention_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * self.head_dim, config.hidden_size, bias=False)

    def forward(self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        """attention_mask: (B, 1, T, T) float, added to the capped scores."""
        B, T, _ = hidden_states.shape
        q, k, v = (f(hidden_states).view(B, T, -1, self.head_dim).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        k, v = (x.repeat_interleave(self.groups, dim=1) for x in (k, v))
        scores = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        cap = self.config.attn_logit_softcapping
        scores = torch.tanh(scores / cap) * cap
        if attention_mask is not None:
            scores = scores + attention_mask
        out = torch.matmul(scores.softmax(-1), v)
        return self.o_proj(out.transpose(1, 2).reshape(B, T, -1))
