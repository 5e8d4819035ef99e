"""Report b084: https://github.com/rasbt/LLMs-from-scratch/pull/697

What is wrong: with a cache the queries start at cur_pos, but the rows of the causal mask are taken from row 0.
"""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """Causal attention for training and for decoding with a cache: the last query belongs to the last key."""

    def __init__(self, d_in, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.d_out, self.num_heads, self.head_dim = d_out, num_heads, d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1).bool())
        self.reset_cache()

    def reset_cache(self):
        """Forget the tokens seen so far."""
        self.cache_k = self.cache_v = None

    def forward(self, x, use_cache=False):
        """x: (batch, num_tokens, d_in)

        use_cache: x continues what was given since reset_cache(), and is remembered
        """
        b, num_tokens, _ = x.shape
        keys, values = (w(x).view(b, num_tokens, self.num_heads, self.head_dim) for w in (self.W_key, self.W_value))
        if use_cache:
            if self.cache_k is not None:
                keys, values = torch.cat([self.cache_k, keys], 1), torch.cat([self.cache_v, values], 1)
            self.cache_k, self.cache_v = keys, values
        queries = self.W_query(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)
        cur_pos = keys.shape[2] - num_tokens
        attn_scores = queries @ keys.transpose(2, 3)
        mask = self.mask[:num_tokens, : cur_pos + num_tokens]  # bug
        attn_scores = attn_scores.masked_fill(mask, -torch.inf)
        attn_weights = self.dropout(torch.softmax(attn_scores / self.head_dim**0.5, dim=-1))
        return self.out_proj((attn_weights @ values).transpose(1, 2).reshape(b, num_tokens, self.d_out))
