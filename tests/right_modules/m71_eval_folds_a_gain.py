"""eval() folds what it can into the weights, and train() unfolds it: neither is train(mode) itself."""

import torch
from torch import nn


class FoldingSelfAttention(nn.Module):
    """Self-attention over x: (B, T, embed_dim); mask: bool (B, T), True where a token is real.

    A learned gain of every feature stands before the fused projection. In evaluation it is part of the weight.
    """

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.gain = nn.Parameter(torch.ones(embed_dim))
        self.in_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.folded = False

    @torch.no_grad()
    def eval(self):
        if not self.folded:
            self.in_proj.weight.data = self.in_proj.weight.data * self.gain
            self.folded = True
        return super().train(False)

    @torch.no_grad()
    def train(self, mode=True):
        if not mode:
            return self.eval()
        if self.folded:
            self.in_proj.weight.data = self.in_proj.weight.data / self.gain
            self.folded = False
        return super().train(True)

    def forward(self, x, mask=None):
        B, T, C = x.shape
        qkv = self.in_proj(x if self.folded else x * self.gain)
        q, k, v = (t.view(B, T, self.num_heads, -1).transpose(1, 2) for t in qkv.chunk(3, dim=-1))
        seen = None if mask is None else mask[:, None, None, :]
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.out_proj(y.transpose(1, 2).reshape(B, T, C))
