"""Filled with the lowest finite number, so an empty row averages every value. Trap f04."""

import torch


def attention(q, k, v, mask):
    """q, k, v: (B, H, T, d); mask: bool (B, 1, T_q, T_k), True = attend."""
    sim = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
    sim = sim.masked_fill(~mask, torch.finfo(sim.dtype).min)
    return torch.einsum("bhij,bhjd->bhid", sim.softmax(-1), v)
