"""Attention from small functions, with the softmax written out."""

import math

import torch


def _causal(T_q, T_k, device):
    """(T_q, T_k) bool: query i sees keys 0..i."""
    i = torch.arange(T_q, device=device)[:, None]
    j = torch.arange(T_k, device=device)[None, :]
    return j <= i


def _shares(scores):
    """Softmax over the keys, in float32 or better; a row of only -inf gives zeros."""
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    top = wide.detach().amax(dim=-1, keepdim=True)
    top = top.masked_fill(top == -math.inf, 0.0)
    exps = torch.exp(wide - top)
    total = exps.sum(dim=-1, keepdim=True)
    return exps / total.masked_fill(total == 0, 1.0)


def soft_lookup(queries, keys, values, allowed_mask=None, is_causal=False):
    """Look queries up among keys and return the mixed values.

    queries: (B, H, T_q, d)   keys: (B, H, T_k, d)   values: (B, H, T_k, d_v)
    allowed_mask: bool, or int of 0 and 1, broadcastable to (B, H, T_q, T_k); True or 1 means the key may be attended to.
    is_causal: query i sees keys 0..i (top-left).

    A query that may look nowhere returns zeros. Returns output (B, H, T_q, d_v) and weights (B, H, T_q, T_k).
    """
    scores = torch.matmul(queries, keys.transpose(-2, -1))
    scores = scores / math.sqrt(queries.shape[-1])
    if allowed_mask is not None:
        hidden = ~allowed_mask.bool()
        scores = scores.masked_fill(hidden, -math.inf)
    if is_causal:
        visible = _causal(scores.shape[-2], scores.shape[-1], scores.device)
        scores = scores.masked_fill(~visible, -math.inf)
    weights = _shares(scores).to(values.dtype)
    return torch.matmul(weights, values), weights
