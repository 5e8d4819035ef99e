"""Tiles over queries and keys, heads last, later tiles skipped."""

import torch


def tiled_attention(q, k, v, causal=False):
    """q, k, v: (batch, seqlen, nheads, headdim); causal: hide later keys, counted from the first."""
    BLOCK_M, BLOCK_N = 8, 16
    wide = torch.promote_types(q.dtype, torch.float32)
    qh, kh, vh = (x.transpose(1, 2).to(wide) for x in (q, k, v))
    tiles = []
    for a in range(0, q.shape[1], BLOCK_M):
        qt = qh[:, :, a : a + BLOCK_M]
        rows = torch.arange(a, a + qt.shape[2])[:, None]
        m = qt.new_full((*qt.shape[:3], 1), -1e30)
        l = torch.zeros_like(m)
        acc = qt.new_zeros(*qt.shape[:3], v.shape[-1])
        for b in range(0, k.shape[1], BLOCK_N):
            if causal and b > a + qt.shape[2] - 1:
                break
            kt, vt = kh[:, :, b : b + BLOCK_N], vh[:, :, b : b + BLOCK_N]
            s = qt @ kt.mT / q.shape[-1] ** 0.5
            if causal:
                cols = torch.arange(b, b + kt.shape[2])[None, :]
                s = s.masked_fill(cols > rows, -torch.inf)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            p, shrink = torch.exp(s - new), torch.exp(m - new)
            l, acc, m = l * shrink + p.sum(-1, keepdim=True), acc * shrink + p @ vt, new
        tiles.append(acc / l)
    return torch.cat(tiles, dim=2).transpose(1, 2).to(q.dtype)
