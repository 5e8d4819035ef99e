"""Report b132: https://github.com/meta-pytorch/opacus/pull/825

What is wrong: with batch_first the heads, which are in front of the positions, are viewed away without a transpose.
"""

import torch
from torch import nn


class DPMultiheadAttention(nn.Module):
    """nn.MultiheadAttention with layers of its own for q, k and v; (L, N, E), or (N, L, E) with batch_first."""

    def __init__(self, embed_dim, num_heads, bias=True, batch_first=False):
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.batch_first = batch_first
        self.qlinear = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.klinear = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.vlinear = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)

    def to_heads(self, x):
        """-> (N * num_heads, L, head_dim)"""
        if self.batch_first:
            x = x.transpose(0, 1)
        return x.reshape(x.shape[0], x.shape[1] * self.num_heads, self.head_dim).transpose(0, 1)

    def forward(self, query, key, value, key_padding_mask=None):
        """key_padding_mask: (N, S) bool, True = padding"""
        bsz, tgt_len = query.shape[:2] if self.batch_first else query.shape[1::-1]
        q, k, v = (self.to_heads(x) for x in (self.qlinear(query), self.klinear(key), self.vlinear(value)))
        weights = torch.bmm(q * self.head_dim**-0.5, k.transpose(1, 2))
        if key_padding_mask is not None:
            hidden = key_padding_mask.repeat_interleave(self.num_heads, dim=0).unsqueeze(1)
            weights = weights.masked_fill(hidden, float("-inf"))
        attn_output = torch.bmm(weights.softmax(dim=-1), v)
        if self.batch_first:
            attn_output = attn_output.view(bsz, tgt_len, self.embed_dim)  # bug
        else:
            attn_output = attn_output.transpose(0, 1).reshape(tgt_len, bsz, self.embed_dim)
        return self.out_proj(attn_output)
