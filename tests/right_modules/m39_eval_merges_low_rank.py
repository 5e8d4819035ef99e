"""A low-rank update of the query and value rows; eval() adds it to the weight, train() takes it out again."""

import torch
import torch.nn.functional as F
from torch import nn


class MergedLinear(nn.Linear):
    """nn.Linear plus scaling * B @ A, kept apart in training and inside the weight in evaluation."""

    def __init__(self, in_features, out_features, r=4, alpha=8.0):
        super().__init__(in_features, out_features)
        self.lora_A = nn.Parameter(torch.randn(r, in_features) * 0.2)
        self.lora_B = nn.Parameter(torch.randn(out_features, r) * 0.2)
        self.scaling = alpha / r
        self.merged = False

    def update(self):
        return self.scaling * (self.lora_B @ self.lora_A)

    def train(self, mode=True):
        super().train(mode)
        if mode == self.merged:  # training with a merged weight, or evaluation without
            with torch.no_grad():
                self.weight.add_(self.update(), alpha=-1 if mode else 1)
            self.merged = not mode
        return self

    def forward(self, x):
        if self.merged:
            return super().forward(x)
        return super().forward(x) + F.linear(x, self.update())


class AdaptedSelfAttention(nn.Module):
    """Bidirectional self-attention over x: (B, T, dim)."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.v_proj = MergedLinear(dim, dim), MergedLinear(dim, dim)
        self.k_proj, self.o_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (p(x).view(B, T, self.num_heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.o_proj(y.transpose(1, 2).reshape(B, T, C))
