"""Attention with one weight tensor per role, indexed by head."""

import math

import torch
from torch import nn


class EinsumAttention(nn.Module):
    """Inputs look at themselves, or at a memory when it is given.

    inputs: (B, T_q, d_model)   memory: (B, T_k, d_model)
    allowed_mask: bool, broadcastable to (B, num_heads, T_q, T_k); True = may attend.
    is_causal: hide keys after the query; when T_q != T_k the last query sees the last key (bottom-right).

    A query that may look nowhere mixes no values.
    Returns output (B, T_q, d_model) and weights (B, num_heads, T_q, T_k), one map per head.
    """

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_head = d_model // num_heads
        shape = (num_heads, d_model, self.d_head)
        self.w_query = nn.Parameter(torch.randn(shape) / math.sqrt(d_model))
        self.w_key = nn.Parameter(torch.randn(shape) / math.sqrt(d_model))
        self.w_value = nn.Parameter(torch.randn(shape) / math.sqrt(d_model))
        self.w_out = nn.Parameter(torch.randn(num_heads, self.d_head, d_model) / math.sqrt(d_model))

    def forward(self, inputs, memory=None, allowed_mask=None, is_causal=False):
        source = inputs if memory is None else memory
        q = torch.einsum("bte,hed->bhtd", inputs, self.w_query)
        k = torch.einsum("bte,hed->bhtd", source, self.w_key)
        v = torch.einsum("bte,hed->bhtd", source, self.w_value)
        T_q, T_k = q.shape[2], k.shape[2]

        allowed = torch.ones(T_q, T_k, dtype=torch.bool, device=q.device)
        if is_causal:
            allowed = allowed.tril(T_k - T_q)
        if allowed_mask is not None:
            allowed = allowed & allowed_mask
        empty = ~allowed.any(dim=-1, keepdim=True)

        logits = torch.einsum("bhqd,bhkd->bhqk", q, k)
        logits = logits / math.sqrt(self.d_head)
        logits = logits.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)
        weights = logits.softmax(dim=-1)
        weights = weights.masked_fill(empty, 0.0)
        context = torch.einsum("bhqk,bhkd->bhqd", weights, v)
        return torch.einsum("bhqd,hde->bqe", context, self.w_out), weights
