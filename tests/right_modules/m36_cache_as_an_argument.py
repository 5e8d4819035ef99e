"""Keys and values of earlier tokens may be handed in; the new ones are handed out. Trap f01."""

import torch
from torch import nn


class CachedSelfAttention(nn.Module):
    """Causal self-attention; with a cache the queries are the last tokens of the sequence."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x, layer_past=None, use_cache=False):
        """layer_past: (keys, values), each (B, heads, earlier tokens, d_head), or None

        Returns the output, and (keys, values) of all tokens when use_cache is set, else None.
        """
        B, T, C = x.shape
        q, k, v = (
            t.view(B, T, self.num_heads, C // self.num_heads).transpose(1, 2)
            for t in self.qkv_proj(x).split(C, dim=-1)
        )
        if layer_past is not None:
            past_key, past_value = layer_past
            k = torch.cat((past_key, k), dim=2)
            v = torch.cat((past_value, v), dim=2)
        S = k.shape[2]
        allowed = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(diagonal=S - T)
        scores = (q @ k.transpose(-2, -1)) / (C // self.num_heads) ** 0.5
        weights = scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)
        y = (weights @ v).transpose(1, 2).reshape(B, T, C)
        return self.out_proj(y), (k, v) if use_cache else None
