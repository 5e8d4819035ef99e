"""Report b077: https://github.com/Dao-AILab/flash-attention/issues/282

What is wrong: rows and columns of the tiles are compared without the offset between queries and keys.
"""

import torch


def flash_forward(q, k, v, causal=False):
    """Tiled attention with a running maximum. q: [b, seqlen_q, h, d], k, v: [b, seqlen_k, h, d].

    causal: hide later keys; the mask is aligned to the bottom right corner, the last query with the last key
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    qh, kh, vh = (x.transpose(1, 2).to(wide) for x in (q, k, v))
    seqlen_q, seqlen_k, block = q.shape[1], k.shape[1], 4
    row = torch.arange(seqlen_q)[:, None]
    m = torch.full((*qh.shape[:-1], 1), -1e30, dtype=wide)
    l, acc = torch.zeros_like(m), torch.zeros(*qh.shape[:-1], v.shape[-1], dtype=wide)
    for start in range(0, seqlen_k, block):
        stop = min(start + block, seqlen_k)
        s = qh @ kh[:, :, start:stop].transpose(-1, -2) / q.shape[-1] ** 0.5
        if causal:
            col = torch.arange(start, stop)[None, :]
            s = s.masked_fill(col > row, float("-inf"))  # bug
        m_new = torch.maximum(m, s.amax(-1, keepdim=True))
        p = torch.exp(s - m_new)
        rescale = torch.exp(m - m_new)
        l = l * rescale + p.sum(-1, keepdim=True)
        acc = acc * rescale + p @ vh[:, :, start:stop]
        m = m_new
    return (acc / l).transpose(1, 2).to(q.dtype)
