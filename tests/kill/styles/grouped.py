"""Grouped-query attention that never copies the shared keys and values."""

import torch


def grouped_query_attention(query, key, value, attn_bias=None, is_causal=False):
    """Attend with fewer key/value heads than query heads.

    query: (B, H, T_q, d)   key: (B, H_kv, T_k, d)   value: (B, H_kv, T_k, d_v)
        Consecutive query heads share a key/value head: heads 0..H/H_kv-1 use head 0.
    attn_bias: float, broadcastable to (B, H, T_q, T_k); added to the scaled scores, -inf hides a key.
    is_causal: query i sees keys 0..i (top-left).

    A query that may look nowhere returns zeros. Returns (B, H, T_q, d_v).
    """
    B, H, T_q, d = query.shape
    H_kv, T_k = key.shape[1], key.shape[2]
    query = query.reshape(B, H_kv, H // H_kv, T_q, d)

    scores = torch.einsum("bngqd,bnkd->bngqk", query, key)
    scores = scores * d**-0.5
    scores = scores.reshape(B, H, T_q, T_k)
    if attn_bias is not None:
        scores = scores + attn_bias
    if is_causal:
        future = torch.arange(T_k, device=query.device) > torch.arange(T_q, device=query.device)[:, None]
        scores = scores.masked_fill(future, float("-inf"))
    nowhere = (scores == float("-inf")).all(dim=-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(nowhere, 0.0), dim=-1)
    weights = weights.masked_fill(nowhere, 0.0)

    weights = weights.reshape(B, H_kv, H // H_kv, T_q, T_k)
    output = torch.einsum("bngqk,bnkd->bngqd", weights, value)
    return output.reshape(B, H, T_q, -1)
