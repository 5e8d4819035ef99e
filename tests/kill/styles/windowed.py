"""Sliding-window attention in blocks of queries: each block reads only the keys its window can reach."""

import math

import torch


def sliding_window_attention(q, k, v, window=None, allowed_mask=None):
    """Causal attention: query i sees itself and earlier keys, at most ``window`` keys in all.

    q: (B, H, T, d)   k: (B, H, T, d)   v: (B, H, T, d_v)
    window: number of keys a query sees, itself included; None is plain causal attention.
    allowed_mask: bool, broadcastable to (B, H, T, T); True = the query may attend to the key.

    A query that may look nowhere returns zeros. Returns (B, H, T, d_v).
    """
    B, H, T, d = q.shape
    block = 8
    window = T if window is None else window
    if allowed_mask is not None:
        allowed_mask = allowed_mask.expand(B, H, T, T)

    output = []
    for start in range(0, T, block):
        stop = min(start + block, T)
        first = max(0, start - window + 1)
        i = torch.arange(start, stop, device=q.device).unsqueeze(1)
        j = torch.arange(first, stop, device=q.device).unsqueeze(0)
        visible = (j <= i) & (j > i - window)
        if allowed_mask is not None:
            visible = visible & allowed_mask[:, :, start:stop, first:stop]
        nowhere = ~visible.any(dim=-1, keepdim=True)

        scores = torch.matmul(q[:, :, start:stop], k[:, :, first:stop].mT)
        scores = scores / math.sqrt(d)
        scores = scores.masked_fill(~(visible | nowhere), -math.inf)
        weights = scores.softmax(dim=-1).masked_fill(nowhere, 0.0)
        output.append(torch.matmul(weights, v[:, :, first:stop]))
    return torch.cat(output, dim=2)
