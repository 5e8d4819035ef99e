"""Report b143: https://github.com/meta-pytorch/torchtune/pull/21

What is wrong: the line for v reshapes k.
"""

import torch.nn.functional as F
from torch import nn


class CausalSelfAttention(nn.Module):
    """Causal attention with num_kv_heads groups of query heads; x: (bsz, seq_len, embed_dim)."""

    def __init__(self, embed_dim: int, num_heads: int, num_kv_heads: int | None = None):
        super().__init__()
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads or num_heads
        self.head_dim = embed_dim // num_heads
        self.kv_dim = self.num_kv_heads * self.head_dim
        self.embed_dim = embed_dim
        self.qkv_proj = nn.Linear(embed_dim, embed_dim + 2 * self.kv_dim, bias=False)
        self.output_proj = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, x):
        bsz, seq_len, _ = x.shape
        q, k, v = self.qkv_proj(x).split((self.embed_dim, self.kv_dim, self.kv_dim), dim=-1)
        q = q.reshape(bsz, seq_len, self.num_heads, self.head_dim)
        k = k.reshape(bsz, seq_len, self.num_kv_heads, self.head_dim)
        v = k.reshape(bsz, seq_len, self.num_kv_heads, self.head_dim)  # bug
        k, v = (t.repeat_interleave(self.num_heads // self.num_kv_heads, dim=2) for t in (k, v))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        output = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output_proj(output.transpose(1, 2).reshape(bsz, seq_len, self.embed_dim))
