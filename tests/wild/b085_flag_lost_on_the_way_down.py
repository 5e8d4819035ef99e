"""Report b085: https://github.com/pytorch/pytorch/issues/96941

What is wrong: is_causal is accepted by the layer and not handed on to the kernel.
"""

import torch.nn.functional as F
from torch import nn


class EncoderLayerAttention(nn.Module):
    """The self-attention of an encoder layer; src: (batch, seq, d_model)."""

    def __init__(self, d_model, nhead, dropout=0.0):
        super().__init__()
        self.nhead, self.dropout = nhead, dropout
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, src, is_causal=False):
        """is_causal: each position sees itself and the ones before it"""
        return self._sa_block(src, is_causal)

    def _sa_block(self, x, is_causal):
        q, k, v = (t.unflatten(-1, (self.nhead, -1)).transpose(1, 2) for t in self.in_proj(x).chunk(3, dim=-1))
        dropout_p = self.dropout if self.training else 0.0
        x = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p)  # bug
        return self.out_proj(x.transpose(1, 2).flatten(2))
