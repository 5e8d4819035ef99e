"""Report b159: https://github.com/mlfoundations/open_lm/issues/4

What is wrong: the rotation counts along axis -2, that of the heads here, so what turns is told by the number of the head.
"""

import torch
import torch.nn.functional as F
from torch import nn


class RotaryEmbedding(nn.Module):
    """Turn x by its position along axis -2."""

    def __init__(self, head_dim):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / 10000 ** (torch.arange(0, head_dim, 2) / head_dim))

    def forward(self, x):
        positions = torch.arange(x.shape[-2], device=x.device)
        freqs = torch.outer(positions, self.inv_freq)
        cos, sin = (torch.cat((f, f), dim=-1) for f in (freqs.cos(), freqs.sin()))
        x1, x2 = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-x2, x1), dim=-1) * sin


class CustomAttn(nn.Module):
    """Causal attention of a language model with rotary positions; x: (batch, seq, dim)."""

    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads, self.head_dim = n_heads, dim // n_heads
        self.in_proj = nn.Linear(dim, 3 * dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)
        self.pos_embed = RotaryEmbedding(self.head_dim)

    def forward(self, x):
        batchsize, seqlen, _ = x.shape
        queries, keys, vals = (
            t.view(batchsize, seqlen, self.n_heads, self.head_dim) for t in self.in_proj(x).chunk(3, dim=-1)
        )
        queries, keys = (self.pos_embed(t) for t in (queries, keys))  # bug
        output = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (queries, keys, vals)), is_causal=True)
        return self.out_proj(output.transpose(1, 2).reshape(batchsize, seqlen, -1))
