"""Report b068: https://github.com/Mikyx-1/TinyLLM/pull/18

What is wrong: the mask is applied only when there is no cache, so tokens that are given together with one see the future.
"""

import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    """Causal attention of a language model: no token sees a later one, in training and when decoding with a cache."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, kv_cache=None):
        """x: (batch, tokens, d_model), the new tokens

        kv_cache: keys and values of the tokens before x, (batch, n_heads, past, head_dim) each; past may be 0
        Returns the output and the cache that includes x.
        """
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.n_heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        if kv_cache is not None:
            k, v = (torch.cat((old, new), dim=2) for old, new in zip(kv_cache, (k, v)))
        scores = q @ k.transpose(-2, -1) * (C // self.n_heads) ** -0.5
        if kv_cache is None:  # bug
            future = torch.ones(T, k.shape[2], dtype=torch.bool, device=x.device).triu(1 + k.shape[2] - T)
            scores = scores.masked_fill(future, float("-inf"))
        y = (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(B, T, C)
        return self.proj(y), (k, v)
