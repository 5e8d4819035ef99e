"""Report b174: https://github.com/huggingface/transformers/pull/26792

What is wrong: the lower triangle is cut at -window, which leaves window + 1 keys.
"""

import torch


def sliding_window_attention(q, k, v, sliding_window=3):
    """Causal attention within a window. q, k, v: (bsz, heads, seq, head_dim).

    sliding_window: number of keys a query sees, itself included
    """
    tgt_len, src_len = q.shape[-2], k.shape[-2]
    ones = torch.ones(tgt_len, src_len, dtype=torch.bool)
    mask = ones.tril(0) & ones.triu(-sliding_window)  # bug
    scores = torch.matmul(q, k.transpose(2, 3)) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.matmul(scores.softmax(dim=-1), v)
