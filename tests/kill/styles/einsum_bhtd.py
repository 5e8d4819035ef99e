"""Attention with einsum, heads before positions."""

import math

import torch


def attend(q, k, v, allowed_mask=None, is_causal=False, scale=None):
    """Mix the values in the shares of a softmax over the keys.

    q: (B, H, T_q, d)   k: (B, H_kv, T_k, d)   v: (B, H_kv, T_k, d_v)
        Query heads share key/value heads in groups: the first H / H_kv heads use head 0, the next ones head 1.
    allowed_mask: bool, broadcastable to (B, H, T_q, T_k); True = this query may attend to this key.
    is_causal: hide keys after the query; when T_q != T_k the last query sees the last key (bottom-right).
    scale: factor on the scores, 1 / sqrt(d) when None.

    A query that may look nowhere returns zeros. Returns (B, H, T_q, d_v).
    """
    group = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(group, dim=1)
    v = v.repeat_interleave(group, dim=1)
    T_q, T_k = q.shape[-2], k.shape[-2]
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1])

    allowed = torch.ones(T_q, T_k, dtype=torch.bool, device=q.device)
    if is_causal:
        allowed = allowed.tril(diagonal=T_k - T_q)
    if allowed_mask is not None:
        allowed = allowed & allowed_mask
    empty = ~allowed.any(dim=-1, keepdim=True)

    scores = torch.einsum("bhid,bhjd->bhij", q, k)
    scores = scores * scale
    scores = scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)
    weights = torch.softmax(scores, dim=-1)
    weights = weights.masked_fill(empty, 0.0)
    return torch.einsum("bhij,bhjd->bhid", weights, v)
