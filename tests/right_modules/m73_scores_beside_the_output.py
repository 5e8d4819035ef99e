"""The second output is the logits: scores before the softmax, for a loss or a plot of their own."""

import math

import torch
from torch import nn


class AttentionWithLogits(nn.Module):
    """query: (B, T_q, dim), memory: (B, T_k, dim), mask: bool (B, T_k), True where a token is real.

    Returns the output (B, T_q, dim) and the logits (B, heads, T_q, T_k), hidden ones at -inf.
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim)
        self.to_kv = nn.Linear(dim, 2 * dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, query, memory, mask=None):
        q = self.to_q(query).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_kv(memory).chunk(2, dim=-1)
        )
        logits = torch.matmul(q, k.mT) / math.sqrt(q.shape[-1])
        if mask is not None:
            logits = logits.masked_fill(~mask[:, None, None], -math.inf)
        context = torch.matmul(torch.softmax(logits, dim=-1), v)
        return self.to_out(context.transpose(1, 2).flatten(2)), logits
