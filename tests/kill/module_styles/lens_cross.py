"""Attention between two sequences of known lengths: each sample is cut to its real tokens."""

import math

import torch
from torch import nn


class LengthAttention(nn.Module):
    """Multi-head attention from queries to a memory.

    queries: (B, T_q, d_model)   memory: (B, T_k, d_model)
    query_lens: int (B,), number of real queries of each sample; the output after them is zero.
    memory_lens: int (B,), number of real memory tokens of each sample; what lies after them does not matter.

    A sample without any memory mixes no values. Returns (B, T_q, d_model).
    """

    def __init__(self, d_model, num_heads, bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def split(self, X):
        """(T, d_model) -> (num_heads, T, d_head)"""
        return X.reshape(X.shape[0], self.num_heads, self.d_head).transpose(0, 1)

    def forward(self, queries, memory, query_lens=None, memory_lens=None):
        B, T_q, _ = queries.shape
        T_k = memory.shape[1]
        samples = []
        for b in range(B):
            real = T_k if memory_lens is None else int(memory_lens[b])
            shown = memory[b, :real]
            q = self.split(self.W_q(queries[b]))
            k = self.split(self.W_k(shown))
            v = self.split(self.W_v(shown))
            scores = torch.bmm(q, k.transpose(1, 2))
            scores = scores / math.sqrt(q.shape[-1])
            weights = torch.softmax(scores, dim=-1)
            mixed = torch.bmm(weights, v)
            samples.append(mixed.transpose(0, 1).reshape(T_q, -1))
        output = self.W_o(torch.stack(samples))
        if query_lens is not None:
            padded = torch.arange(T_q, device=queries.device) >= query_lens[:, None]
            output = output.masked_fill(padded[..., None], 0.0)
        return output
