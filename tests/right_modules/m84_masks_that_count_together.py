"""Softmax attention between the features of two images, whose masks of padding count only together."""

import torch
from torch import nn


class FullAttention(nn.Module):
    """Softmax over the keys of each query.

    queries: (n, l, h, d)
    keys: (n, s, h, d)
    values: (n, s, h, d)
    q_mask: (n, l) bool, True = real
    kv_mask: (n, s) bool, True = real
    """

    def forward(self, queries, keys, values, q_mask=None, kv_mask=None):
        scores = torch.einsum("nlhd,nshd->nlsh", queries, keys)
        if q_mask is not None and kv_mask is not None:
            both = q_mask[:, :, None, None] & kv_mask[:, None, :, None]
            scores = scores.masked_fill(~both, float("-inf"))
        weights = (scores / queries.shape[-1] ** 0.5).softmax(dim=2)
        return torch.einsum("nlsh,nshd->nlhd", weights, values).contiguous()
