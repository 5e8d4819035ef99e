"""The answer is a dictionary; the shape of the weights is as the formula has it."""

import torch
from torch import nn


class TokenMixer(nn.Module):
    """Self-attention. Returns {"output": (B, T, dim), "weights": (B, heads, T, T)}."""

    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, blocked_mask=None):
        """blocked_mask: bool (B, T), True = this key is hidden from all queries."""
        B, T, D = x.shape
        q, k, v = (f(x).reshape(B, T, self.h, D // self.h) for f in (self.q, self.k, self.v))
        s = torch.einsum("bihd,bjhd->bhij", q, k).div((D // self.h) ** 0.5)
        if blocked_mask is not None:
            s = s.masked_fill(blocked_mask.view(B, 1, 1, T), float("-inf"))
        w = s.softmax(-1)
        y = torch.einsum("bhij,bjhd->bihd", w, v).reshape(B, T, D)
        return {"output": self.o(y), "weights": w}
