"""A fixed number of learned vectors look at an input of any length."""

import torch
from torch import nn


class LatentCrossAttention(nn.Module):
    def __init__(self, num_latents: int, dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.latents = nn.Parameter(torch.randn(num_latents, dim) * 0.5)
        self.norm_latents = nn.LayerNorm(dim)
        self.norm_data = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, data: torch.Tensor, pad_mask: torch.Tensor | None = None) -> torch.Tensor:
        """data: (B, T, dim)   pad_mask: bool (B, T), True = padding.   Returns (B, num_latents, dim)."""
        B = data.shape[0]
        latents = self.norm_latents(self.latents).expand(B, -1, -1)
        data = self.norm_data(data)
        q = self.to_q(latents).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
        k = self.to_k(data).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
        v = self.to_v(data).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
        logits = torch.einsum("bhic,bhjc->bhij", q, k) * q.shape[-1] ** -0.5
        if pad_mask is not None:
            logits = logits.masked_fill(pad_mask[:, None, None, :], -torch.finfo(logits.dtype).max)
        out = torch.einsum("bhij,bhjc->bhic", logits.softmax(dim=-1), v)
        return self.to_out(out.transpose(1, 2).flatten(2))
