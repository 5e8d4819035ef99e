"""Arguments in the order key, value, query."""

import torch


def attention_layer(keys, values, queries):
    """keys: (B, T_k, d)   values: (B, T_k, d_v)   queries: (B, T_q, d)."""
    energy = torch.einsum("bqd,bkd->bqk", queries, keys) / queries.shape[-1] ** 0.5
    return torch.einsum("bqk,bkd->bqd", energy.softmax(-1), values)
