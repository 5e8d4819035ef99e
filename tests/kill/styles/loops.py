"""Attention as three loops: one sample, one head and one query at a time, over its visible keys only."""

import math

import torch


def attention(query, key, value, allowed_mask=None, is_causal=False, window=None):
    """Look each query up among the keys it may see.

    query: (B, H, T_q, d)   key: (B, H_kv, T_k, d)   value: (B, H_kv, T_k, d_v)
    allowed_mask: bool, broadcastable to (B, H, T_q, T_k); True means the query may look at the key.
    is_causal: query i sees keys 0..i, also when T_q != T_k (top-left).
    window: causal sliding window: query i sees the last ``window`` keys, its own included.

    A query that may look nowhere returns zeros.
    Returns output (B, H, T_q, d_v) and weights (B, H, T_q, T_k).
    """
    B, H, T_q, d = query.shape
    H_kv, T_k = key.shape[1], key.shape[2]
    group = H // H_kv
    positions = torch.arange(T_k, device=query.device)
    everything = torch.ones(B, H, T_q, T_k, dtype=torch.bool, device=query.device)
    if allowed_mask is not None:
        everything = everything & allowed_mask

    outputs, rows = [], []
    for b in range(B):
        for h in range(H):
            head = h // group
            keys, values = key[b, head], value[b, head]
            for i in range(T_q):
                allowed = everything[b, h, i]
                if is_causal or window is not None:
                    allowed = allowed & (positions <= i)
                if window is not None:
                    allowed = allowed & (positions > i - window)
                seen = allowed.nonzero()[:, 0]
                scores = keys[seen] @ query[b, h, i]
                scores = scores / math.sqrt(d)
                shares = torch.softmax(scores, dim=0)
                outputs.append(shares @ values[seen])
                rows.append(shares.new_zeros(T_k).scatter(0, seen, shares))
    output = torch.stack(outputs).view(B, H, T_q, -1)
    weights = torch.stack(rows).view(B, H, T_q, T_k)
    return output, weights
