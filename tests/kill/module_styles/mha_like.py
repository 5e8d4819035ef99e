"""Multi-head attention with the interface of torch.nn.MultiheadAttention."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class MultiheadAttention(nn.Module):
    """Attend from ``query`` to ``key`` and mix ``value``.

    in_proj_weight holds three blocks of rows: those of the queries, of the keys, of the values.

    query: (T_q, B, embed_dim)   key: (T_k, B, embed_dim)   value: (T_k, B, embed_dim)
        With batch_first=True: (B, T, embed_dim).
    key_padding_mask: bool (B, T_k); True = padding, a key that nobody may look at.
    attn_mask: bool (T_q, T_k) or (B * num_heads, T_q, T_k), True = the query may not look at the key;
        or float, added to the scaled scores.
    is_causal: hide keys after the query; when T_q != T_k the last query sees the last key (bottom-right).

    A query that may look nowhere mixes no values.
    Returns output, shaped like query, and weights (B, num_heads, T_q, T_k), or None unless need_weights.
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, batch_first=False):
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        assert self.head_dim * num_heads == embed_dim, "embed_dim must be divisible by num_heads"
        self.dropout = dropout
        self.batch_first = batch_first
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim)) if bias else None
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def _project(self, x, row):
        rows = slice(row * self.embed_dim, (row + 1) * self.embed_dim)
        bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
        return F.linear(x, self.in_proj_weight[rows], bias)

    def forward(
        self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, is_causal=False
    ):
        if self.batch_first:
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        T_q, B, _ = query.shape
        T_k = key.shape[0]
        q = self._project(query, 0)
        k = self._project(key, 1)
        v = self._project(value, 2)
        # (T, B, embed_dim) -> (B * H, T, head_dim)
        q = q.contiguous().view(T_q, B * self.num_heads, self.head_dim).transpose(0, 1)
        k = k.contiguous().view(T_k, B * self.num_heads, self.head_dim).transpose(0, 1)
        v = v.contiguous().view(T_k, B * self.num_heads, self.head_dim).transpose(0, 1)

        blocked = torch.zeros(1, T_q, T_k, dtype=torch.bool, device=q.device)
        if is_causal:
            blocked = blocked | torch.ones_like(blocked).triu(T_k - T_q + 1)
        if key_padding_mask is not None:
            padding = key_padding_mask.repeat_interleave(self.num_heads, dim=0)
            blocked = blocked | padding[:, None, :]

        attn = torch.bmm(q, k.transpose(1, 2))
        attn = attn * self.head_dim**-0.5
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            blocked = blocked | attn_mask
        elif attn_mask is not None:
            attn = attn + attn_mask
        attn = attn.masked_fill(blocked, -math.inf)
        nowhere = attn.detach().isneginf().all(dim=-1, keepdim=True)
        attn = F.softmax(attn.masked_fill(nowhere, 0.0), dim=-1)
        attn = attn.masked_fill(nowhere, 0.0)
        attn = F.dropout(attn, p=self.dropout, training=self.training)

        output = torch.bmm(attn, v)
        output = output.transpose(0, 1).reshape(T_q, B, self.embed_dim)
        output = self.out_proj(output)
        if self.batch_first:
            output = output.transpose(0, 1)
        return output, attn.view(B, self.num_heads, T_q, T_k) if need_weights else None
