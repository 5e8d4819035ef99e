"""Queries and keys are normalised and multiplied by a temperature of 10. Trap f11."""

import torch
import torch.nn.functional as F


def cosine_attention(q, k, v):
    """Cosine attention (QK-norm) with temperature 10. q, k, v: (B, H, T, d)."""
    q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
    sim = torch.einsum("bhid,bhjd->bhij", q, k) * 10.0
    return torch.einsum("bhij,bhjd->bhid", sim.softmax(dim=-1), v)
