"""eval() folds the scale of the scores into the query rows; train() takes it out again."""

import torch
from torch import nn


class FoldedScaleAttention(nn.Module):
    """Causal self-attention over x: (B, T, dim)."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.o_proj = nn.Linear(dim, dim)
        self.folded = False

    def train(self, mode=True):
        super().train(mode)
        if mode == self.folded:
            factor = 1 / self.scale if mode else self.scale
            with torch.no_grad():
                self.q_proj.weight.mul_(factor)
                self.q_proj.bias.mul_(factor)
            self.folded = not mode
        return self

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (p(x).view(B, T, self.num_heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        scores = q @ k.transpose(-2, -1)
        if not self.folded:
            scores = scores * self.scale
        later = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(dim=-1)
        return self.o_proj((weights @ v).transpose(1, 2).reshape(B, T, C))
