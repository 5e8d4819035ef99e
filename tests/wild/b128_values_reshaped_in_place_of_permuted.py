"""Report b128: https://github.com/jsbaan/transformer-from-scratch/pull/6

What is wrong: (batch, heads, length, d) is reshaped to (batch, length, heads * d) without moving the heads back.
"""

import torch
import torch.nn.functional as F
from torch import nn


class MultiHeadAttention(nn.Module):
    """Self-attention of an encoder; one projection holds q, k and v of head 0, then those of head 1 ..."""

    def __init__(self, hidden_dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.qkv_dim = hidden_dim // num_heads
        self.qkv_proj = nn.Linear(hidden_dim, 3 * hidden_dim, bias=False)
        self.o_proj = nn.Linear(hidden_dim, hidden_dim, bias=False)

    def forward(self, x: torch.FloatTensor, src_padding_mask=None):
        """x: (batch_size, sequence_length, hidden_dim)

        src_padding_mask: (batch_size, sequence_length) bool, True = a token, False = padding
        """
        batch_size, sequence_length, hidden_dim = x.shape
        qkv = self.qkv_proj(x).reshape(batch_size, sequence_length, self.num_heads, 3 * self.qkv_dim)
        q, k, v = qkv.permute(0, 2, 1, 3).chunk(3, dim=-1)
        attn_logits = torch.matmul(q, k.transpose(-2, -1)) / self.qkv_dim**0.5
        if src_padding_mask is not None:
            attn_logits = attn_logits.masked_fill(~src_padding_mask[:, None, None, :], float("-inf"))
        values = torch.matmul(F.softmax(attn_logits, dim=-1), v)
        values = values.reshape(batch_size, sequence_length, hidden_dim)  # bug
        return self.o_proj(values)
