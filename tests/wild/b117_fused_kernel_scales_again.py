"""Report b117: https://github.com/huggingface/transformers/pull/38290

What is wrong: the queries are scaled already, and the fused kernel applies its own 1/sqrt(head_dim) on top.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class OPTConfig:
    hidden_size: int = 24
    num_attention_heads: int = 3
    enable_bias: bool = True
    _attn_implementation: str = "sdpa"


class OPTAttention(nn.Module):
    """Causal attention of a decoder; hidden_states: (bsz, tgt_len, hidden_size)."""

    def __init__(self, config: OPTConfig):
        super().__init__()
        self.config = config
        self.embed_dim = config.hidden_size
        self.num_heads = config.num_attention_heads
        self.head_dim = self.embed_dim // self.num_heads
        self.scaling = self.head_dim**-0.5
        self.k_proj = nn.Linear(self.embed_dim, self.embed_dim, bias=config.enable_bias)
        self.v_proj = nn.Linear(self.embed_dim, self.embed_dim, bias=config.enable_bias)
        self.q_proj = nn.Linear(self.embed_dim, self.embed_dim, bias=config.enable_bias)
        self.out_proj = nn.Linear(self.embed_dim, self.embed_dim, bias=config.enable_bias)

    def forward(self, hidden_states):
        bsz, tgt_len, _ = hidden_states.shape
        query_states = self.q_proj(hidden_states) * self.scaling
        states = (query_states, self.k_proj(hidden_states), self.v_proj(hidden_states))
        q, k, v = (x.view(bsz, tgt_len, self.num_heads, self.head_dim).transpose(1, 2) for x in states)
        if self.config._attn_implementation == "sdpa":
            attn_output = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # bug
        else:
            future = torch.ones(tgt_len, tgt_len, dtype=torch.bool, device=q.device).triu(1)
            attn_weights = torch.matmul(q, k.transpose(2, 3)).masked_fill(future, float("-inf"))
            attn_output = torch.matmul(torch.softmax(attn_weights, dim=-1), v)
        return self.out_proj(attn_output.transpose(1, 2).reshape(bsz, tgt_len, self.embed_dim))
