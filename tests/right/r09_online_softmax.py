"""Keys in blocks with a running maximum; the last block may be shorter."""

import torch


def blockwise_attention(q, k, v, block_size=4):
    """q, k, v: [B, H, T, d]; T need not be a multiple of block_size."""
    wide = torch.promote_types(q.dtype, torch.float32)
    qs = q.to(wide) * q.shape[-1] ** -0.5
    m = torch.full((*q.shape[:-1], 1), -torch.inf, dtype=wide)
    l = torch.zeros_like(m)
    o = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=wide)
    for kb, vb in zip(k.to(wide).split(block_size, dim=2), v.to(wide).split(block_size, dim=2)):
        s = qs @ kb.transpose(-1, -2)
        m_new = torch.maximum(m, s.amax(dim=-1, keepdim=True))
        p = torch.exp(s - m_new)
        alpha = torch.exp(m - m_new)
        l = alpha * l + p.sum(dim=-1, keepdim=True)
        o = alpha * o + p @ vb
        m = m_new
    return (o / l).to(q.dtype)
