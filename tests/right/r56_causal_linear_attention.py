"""Causal linear attention: keys and values are summed up to each position. Trap f29."""

import torch
import torch.nn.functional as F


def causal_linear_attention(q, k, v):
    """Causal linear attention, phi(x) = elu(x) + 1, normalised by the keys so far. q, k, v: (B, H, T, d)."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    state = torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(dim=2)
    total = k.cumsum(dim=2)
    return torch.einsum("bhtd,bhtde->bhte", q, state) / (q * total).sum(dim=-1, keepdim=True)
