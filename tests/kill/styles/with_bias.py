"""Attention with an additive bias on the scores."""

import math

import torch


def biased_attention(q, k, v, attn_bias=None, is_causal=False):
    """softmax(q k^T / sqrt(d) + attn_bias) v.

    q: (B, H, T_q, d)   k: (B, H, T_k, d)   v: (B, H, T_k, d_v)
    attn_bias: float, broadcastable to (B, H, T_q, T_k); added to the scores after they are scaled. -inf hides a key.
    is_causal: query i sees keys 0..i (top-left).

    A query that may look nowhere returns zeros. Returns (B, H, T_q, d_v).
    """
    T_q, T_k = q.size(-2), k.size(-2)
    bias = torch.zeros(T_q, T_k, dtype=q.dtype, device=q.device)
    if is_causal:
        bias = bias + torch.full_like(bias, -math.inf).triu(diagonal=1)
    if attn_bias is not None:
        bias = bias + attn_bias

    logits = torch.matmul(q, k.transpose(-1, -2))
    logits = logits / math.sqrt(q.size(-1))
    logits = logits + bias
    nowhere = logits.detach().isneginf().all(dim=-1, keepdim=True)
    logits = logits.masked_fill(nowhere, 0.0)
    probs = torch.softmax(logits, dim=-1)
    probs = probs.masked_fill(nowhere, 0.0)
    return torch.matmul(probs, v)
