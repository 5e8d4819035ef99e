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
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)  # for the weights; 5.5 looks at what it does

    def split_heads(self, x):
        """(B, T, d_model) -> (B, H, T, d_head)"""
        B, T, _ = x.shape
        return x.view(B, T, self.num_heads, self.d_head).transpose(1, 2)

    def merge_heads(self, context):
        """(B, H, T, d_head) -> (B, T, d_model)"""
        B, H, T, d_head = context.shape
        return context.transpose(1, 2).contiguous().view(B, T, H * d_head)

    def forward(self, x, attention_mask=None):
        q = self.split_heads(self.q_proj(x))  # (B, H, T, d_head)
        k = self.split_heads(self.k_proj(x))  # (B, H, T, d_head)
        v = self.split_heads(self.v_proj(x))  # (B, H, T, d_head)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)  # (B, H, T, T)
        if attention_mask is not None:
            if attention_mask.dim() == 3:
                attention_mask = attention_mask[:, None]  # (B, 1, T, T): all heads of a sample share it
            elif attention_mask.dim() not in (2, 4):
                raise ValueError(f"a mask has 2, 3 or 4 axes, got shape {tuple(attention_mask.shape)}")
            scores = scores.masked_fill(~attention_mask, -math.inf)
        weights = self.dropout(torch.softmax(scores, dim=-1))  # (B, H, T, T)
        return self.out_proj(self.merge_heads(weights @ v)), weights


if __name__ == "__main__":
    layer = MultiHeadAttention(d_model=32, num_heads=4)
    causal = torch.ones(5, 5).tril().bool()
    output, weights = layer(torch.randn(2, 5, 32), causal)
    print("output", tuple(output.shape), "weights", tuple(weights.shape))
    print("largest weight on the future:", weights.triu(1).max().item())
