"""Grouped heads: expanded, then reshaped, heads last."""

import torch


def repeat_kv(x, n_rep):
    """(bs, slen, n_kv_heads, head_dim) -> (bs, slen, n_kv_heads * n_rep, head_dim)."""
    bs, slen, n_kv_heads, head_dim = x.shape
    return x[:, :, :, None, :].expand(bs, slen, n_kv_heads, n_rep, head_dim).reshape(bs, slen, n_kv_heads * n_rep, head_dim)


def attention(xq, keys, values, mask=None):
    """xq: (bs, seqlen, n_heads, head_dim)   keys, values: (bs, seqlen, n_kv_heads, head_dim); mask: additive (T_q, T_k)."""
    n_rep = xq.shape[2] // keys.shape[2]
    keys, values = repeat_kv(keys, n_rep), repeat_kv(values, n_rep)
    xq, keys, values = (x.transpose(1, 2) for x in (xq, keys, values))
    scores = torch.matmul(xq, keys.transpose(2, 3)) / xq.shape[-1] ** 0.5
    if mask is not None:
        scores = scores + mask.to(scores.dtype)
    scores = torch.softmax(scores.float(), dim=-1).type_as(xq)
    return torch.matmul(scores, values).transpose(1, 2)
