"""Attention with its backward pass written by hand."""

import math

import torch


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, allowed):
        factor = 1 / math.sqrt(q.shape[-1])
        scores = q @ k.transpose(-2, -1)
        scores = scores * factor
        empty = ~allowed.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)
        weights = torch.softmax(scores, dim=-1)
        weights = weights.masked_fill(empty, 0.0)
        ctx.save_for_backward(q, k, v, weights)
        ctx.factor = factor
        return weights @ v

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, weights = ctx.saved_tensors
        grad_v = weights.transpose(-2, -1) @ grad_output
        grad_weights = grad_output @ v.transpose(-2, -1)
        inner = (grad_weights * weights).sum(dim=-1, keepdim=True)
        grad_scores = weights * (grad_weights - inner)
        grad_q = grad_scores @ k * ctx.factor
        grad_k = grad_scores.transpose(-2, -1) @ q * ctx.factor
        return grad_q, grad_k, grad_v, None


def attend(q, k, v, allowed_mask=None, is_causal=False):
    """Attend, saving only the weights for the backward pass.

    q: (B, H, T_q, d)   k: (B, H, T_k, d)   v: (B, H, T_k, d_v)
    allowed_mask: bool, broadcastable to (B, H, T_q, T_k); True = may attend.
    is_causal: query i sees keys 0..i (top-left).

    A query that may look nowhere returns zeros. Returns (B, H, T_q, d_v).
    """
    allowed = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
    if is_causal:
        allowed = torch.tril(allowed)
    if allowed_mask is not None:
        allowed = torch.logical_and(allowed, allowed_mask)
    return _Lookup.apply(q, k, v, allowed)
