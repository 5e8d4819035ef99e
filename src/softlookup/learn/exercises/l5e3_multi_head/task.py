"""5.3 The whole layer.

Project, split, look up in every head, merge, project out: the layer that stands in every transformer.
"""

import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """Self-attention in `num_heads` heads of width d_head = d_model / num_heads.

    x: (B, T, d_model)
    attention_mask: boolean, True = may be looked at; (T, T) for all, (B, T, T) for each sample,
        or four axes that broadcast to (B, H, T, T)

    Returns: output (B, T, d_model) and the weights (B, H, T, T).

    Raises: ValueError when d_model is not a multiple of num_heads, and for a mask with other axes.
    """

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        raise NotImplementedError("TODO: the check")
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)  # for the weights; 5.5 looks at what it does

    def split_heads(self, x):
        """(B, T, d_model) -> (B, H, T, d_head)"""
        raise NotImplementedError("TODO: as in 5.1")

    def merge_heads(self, context):
        """(B, H, T, d_head) -> (B, T, d_model)"""
        raise NotImplementedError("TODO: as in 5.2")

    def forward(self, x, attention_mask=None):
        raise NotImplementedError("TODO: project, split, mask, look up, merge, project out")


if __name__ == "__main__":
    layer = MultiHeadAttention(d_model=32, num_heads=4)
    causal = torch.ones(5, 5).tril().bool()
    output, weights = layer(torch.randn(2, 5, 32), causal)
    print("output", tuple(output.shape), "weights", tuple(weights.shape))
    print("largest weight on the future:", weights.triu(1).max().item())
