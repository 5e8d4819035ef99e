"""Report b189: https://github.com/meta-pytorch/torchtune/issues/1791

What is wrong: the docstring says that dropout is off outside training, and the call does not look at self.training.
"""

import torch.nn.functional as F
from torch import nn


class MultiHeadAttention(nn.Module):
    """Causal attention of embed_dim features with separate layers for q, k and v.

    attn_dropout: probability of dropping a weight; ignored when not in training mode
    """

    def __init__(self, *, embed_dim: int, num_heads: int, num_kv_heads: int, attn_dropout: float = 0.0):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = embed_dim // num_heads
        self.attn_dropout = attn_dropout
        self.q_proj = nn.Linear(embed_dim, num_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, num_kv_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, x):
        """x: [b x s x embed_dim]"""
        b, s, _ = x.shape
        groups = self.num_heads // self.num_kv_heads
        q = self.q_proj(x).view(b, s, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, s, self.num_kv_heads, self.head_dim).transpose(1, 2).repeat_interleave(groups, dim=1)
        v = self.v_proj(x).view(b, s, self.num_kv_heads, self.head_dim).transpose(1, 2).repeat_interleave(groups, dim=1)
        output = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_dropout, is_causal=True)  # bug
        return self.output_proj(output.transpose(1, 2).reshape(b, s, -1))
