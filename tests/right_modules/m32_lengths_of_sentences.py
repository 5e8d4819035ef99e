"""Padding is told by the length of each sample, not by a mask."""

import torch
from torch import nn


class LengthMaskedAttention(nn.Module):
    def __init__(self, num_hiddens, num_heads, dropout, bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.dropout = nn.Dropout(dropout)
        self.W_q = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_k = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_v = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=bias)

    def transpose_qkv(self, X):
        """(batch, n, num_hiddens) -> (batch * num_heads, n, num_hiddens / num_heads)"""
        X = X.reshape(X.shape[0], X.shape[1], self.num_heads, -1).permute(0, 2, 1, 3)
        return X.reshape(-1, X.shape[2], X.shape[3])

    def transpose_output(self, X):
        X = X.reshape(-1, self.num_heads, X.shape[1], X.shape[2]).permute(0, 2, 1, 3)
        return X.reshape(X.shape[0], X.shape[1], -1)

    def forward(self, queries, keys, values, valid_lens=None):
        """valid_lens: (batch,) how many keys of each sample are real, counted from the first; None = all"""
        queries = self.transpose_qkv(self.W_q(queries))
        keys = self.transpose_qkv(self.W_k(keys))
        values = self.transpose_qkv(self.W_v(values))
        scores = torch.bmm(queries, keys.transpose(1, 2)) / queries.shape[-1] ** 0.5
        if valid_lens is not None:
            valid_lens = torch.repeat_interleave(valid_lens, repeats=self.num_heads, dim=0)
            real = torch.arange(scores.shape[-1], device=scores.device) < valid_lens[:, None, None]
            scores = scores.masked_fill(~real, -1e6)
        output = torch.bmm(self.dropout(scores.softmax(dim=-1)), values)
        return self.W_o(self.transpose_output(output))
