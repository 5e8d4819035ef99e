"""Report b198: https://github.com/facebookresearch/fairseq/issues/3365

What is wrong: the weights are averaged over the heads although those of each head were asked for.
"""

import torch
import torch.nn.functional as F
from torch import nn


class MultiheadAttention(nn.Module):
    """Multi-headed attention; query: (tgt_len, bsz, embed_dim), key and value: (src_len, bsz, embed_dim)."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, need_head_weights=False):
        """key_padding_mask: (bsz, src_len) bool, True = padding

        need_weights: return the weights as well, averaged over the heads: (bsz, tgt_len, src_len)
        need_head_weights: return the weights of each head: (num_heads, bsz, tgt_len, src_len)
        """
        projected = self.q_proj(query), self.k_proj(key), self.v_proj(value)
        q, k, v = (x.unflatten(-1, (self.num_heads, self.head_dim)).permute(2, 1, 0, 3) for x in projected)
        attn_weights = q @ k.transpose(2, 3) * self.head_dim**-0.5
        if key_padding_mask is not None:
            attn_weights = attn_weights.masked_fill(key_padding_mask[None, :, None, :], float("-inf"))
        attn_weights = F.softmax(attn_weights, dim=-1)
        attn = torch.matmul(attn_weights, v).permute(2, 1, 0, 3).flatten(2)
        if not need_weights and not need_head_weights:
            return self.out_proj(attn), None
        return self.out_proj(attn), attn_weights.mean(dim=0)  # bug
