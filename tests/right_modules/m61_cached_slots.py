"""A model for generation: keys and values are written into buffers from start_pos on."""

import torch
from torch import nn


class BufferedCacheAttention(nn.Module):
    """Causal attention with a cache in the module; forward(x) alone is the pass over a whole text."""

    def __init__(self, dim, n_heads, max_batch_size=8, max_seq_len=64):
        super().__init__()
        self.n_heads, self.head_dim = n_heads, dim // n_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        size = (max_batch_size, max_seq_len, n_heads, self.head_dim)
        self.register_buffer("cache_k", torch.zeros(size), persistent=False)
        self.register_buffer("cache_v", torch.zeros(size), persistent=False)

    def forward(self, x, start_pos: int = 0):
        bsz, seqlen, _ = x.shape
        q, k, v = (w(x).view(bsz, seqlen, self.n_heads, self.head_dim) for w in (self.wq, self.wk, self.wv))
        end = start_pos + seqlen
        if not torch.is_grad_enabled():  # the cache serves generation only
            self.cache_k[:bsz, start_pos:end] = k
            self.cache_v[:bsz, start_pos:end] = v
        if start_pos:
            k, v = self.cache_k[:bsz, :end], self.cache_v[:bsz, :end]
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / self.head_dim**0.5
        allowed = torch.arange(end)[None, :] <= torch.arange(start_pos, end)[:, None]
        weights = scores.masked_fill(~allowed.to(x.device), float("-inf")).softmax(dim=-1)
        return self.wo(torch.einsum("bhqk,bkhd->bqhd", weights, v).reshape(bsz, seqlen, -1))
