"""Queries in chunks, to save memory; the last chunk may be shorter."""

import torch


def chunked_attention(q, k, v, q_chunk=4, is_causal=False):
    """q, k, v: (B, H, T, d); is_causal: hide later keys."""
    outputs = []
    for start in range(0, q.shape[2], q_chunk):
        part = q[:, :, start : start + q_chunk]
        s = part @ k.transpose(2, 3) / q.shape[-1] ** 0.5
        if is_causal:
            rows = torch.arange(start, start + part.shape[2])[:, None]
            s = torch.where(torch.arange(k.shape[2]) <= rows, s, -torch.inf)
        outputs.append(torch.softmax(s, dim=-1) @ v)
    return torch.cat(outputs, dim=2)
