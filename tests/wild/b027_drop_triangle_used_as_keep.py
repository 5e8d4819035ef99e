"""Report b027: https://github.com/rasbt/LLMs-from-scratch/issues/1061

What is wrong: the triangle marks what to drop, but the fused call reads True as keep: only the future is seen.
"""

import torch
from torch import nn


class CausalHeads(nn.Module):
    """Causal attention: no token sees the ones after it. queries, keys, values: (b, num_heads, num_tokens, head_dim)."""

    def __init__(self, context_length=256):
        super().__init__()
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1).bool())

    def forward(self, queries, keys, values):
        num_tokens = queries.shape[2]
        mask = self.mask[:num_tokens, : keys.shape[2]]
        return nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)  # bug
