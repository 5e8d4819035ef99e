"""The answer is an object with named fields."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class AttentionOutput:
    hidden_states: torch.Tensor
    attentions: torch.Tensor | None = None


@dataclass(frozen=True)
class EncoderConfig:
    width: int = 64
    num_heads: int = 4
    dropout_rate: float = 0.1


class SelfAttention(nn.Module):
    """Bidirectional self-attention over tokens."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.in_proj = nn.Linear(config.width, 3 * config.width)
        self.out_proj = nn.Linear(config.width, config.width)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(self, hidden_states: torch.Tensor, mask: torch.Tensor | None = None) -> AttentionOutput:
        """hidden_states: [batch, tokens, width]   mask: bool [batch, tokens], True for real tokens"""
        query, key, value = (
            part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for part in self.in_proj(hidden_states).chunk(3, dim=-1)
        )
        logits = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        if mask is not None:
            logits = torch.where(mask[:, None, None, :], logits, float("-inf"))
        attentions = logits.softmax(dim=-1)
        mixed = (self.dropout(attentions) @ value).transpose(1, 2).flatten(2)
        return AttentionOutput(hidden_states=self.out_proj(mixed), attentions=attentions)
