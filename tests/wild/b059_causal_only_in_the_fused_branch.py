"""Report b059: https://github.com/keras-team/keras/issues/23038

What is wrong: the branch that returns the scores (and the one for dropout) forgets use_causal_mask.
"""

import torch
import torch.nn.functional as F
from torch import nn


class MultiHeadAttention(nn.Module):
    """Attention with `num_heads` heads of width `key_dim`; x: (batch, length, num_heads * key_dim)."""

    def __init__(self, num_heads, key_dim, dropout=0.0):
        super().__init__()
        self.num_heads, self.key_dim, self.dropout = num_heads, key_dim, dropout
        width = num_heads * key_dim
        self.query_dense = nn.Linear(width, width)
        self.key_dense = nn.Linear(width, width)
        self.value_dense = nn.Linear(width, width)
        self.output_dense = nn.Linear(width, width)

    def forward(self, x, use_causal_mask=False, return_attention_scores=False):
        """use_causal_mask: no position sees a later one

        Returns the output, and the attention scores (batch, num_heads, length, length) if they are asked for.
        """
        dense = (self.query_dense, self.key_dense, self.value_dense)
        q, k, v = (layer(x).unflatten(-1, (self.num_heads, self.key_dim)).transpose(1, 2) for layer in dense)
        p = self.dropout if self.training else 0.0
        if not return_attention_scores and p == 0.0:
            out = F.scaled_dot_product_attention(q, k, v, is_causal=use_causal_mask)
            return self.output_dense(out.transpose(1, 2).flatten(2))
        scores = torch.einsum("bhtd,bhsd->bhts", q, k) * self.key_dim**-0.5
        scores = torch.softmax(scores, dim=-1)  # bug
        out = torch.einsum("bhts,bhsd->bthd", F.dropout(scores, p), v)
        out = self.output_dense(out.flatten(2))
        return (out, scores) if return_attention_scores else out
