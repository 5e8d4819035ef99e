"""Causal attention with shared key/value heads and rotary positions."""

import torch
import torch.nn.functional as F
from torch import nn


def precompute_rotary(head_dim, max_seq_len, theta):
    """cos and sin, each (max_seq_len, head_dim): the angle of pair i turns at theta ** (-2 i / head_dim)."""
    inv_freq = theta ** (-torch.arange(0, head_dim, 2).float() / head_dim)
    angles = torch.outer(torch.arange(max_seq_len).float(), inv_freq)
    angles = torch.cat([angles, angles], dim=-1)  # channel i pairs with channel i + head_dim / 2
    return angles.cos(), angles.sin()


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


class GroupedQueryAttention(nn.Module):
    """Causal self-attention; n_heads // n_kv_heads consecutive query heads share a key/value head.

    x: (B, T, dim), T up to max_seq_len
    attention_mask: bool (B, T); True = a real token that may be attended to, False = padding.

    softmax_scale: factor on the scores, head_dim ** -0.5 when None.
    A query that may look nowhere mixes no values. Returns (B, T, dim).
    """

    def __init__(self, dim, n_heads, n_kv_heads, max_seq_len=64, rope_theta=10000.0, softmax_scale=None):
        super().__init__()
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.n_rep = n_heads // n_kv_heads
        self.head_dim = dim // n_heads
        self.softmax_scale = self.head_dim**-0.5 if softmax_scale is None else softmax_scale
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)
        cos, sin = precompute_rotary(self.head_dim, max_seq_len, rope_theta)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def rotate(self, x):
        """Turn x (B, T, heads, head_dim) by its positions."""
        T = x.shape[1]
        cos = self.cos[:T, None, :].to(x.dtype)
        sin = self.sin[:T, None, :].to(x.dtype)
        return x * cos + rotate_half(x) * sin

    def forward(self, x, attention_mask=None):
        B, T, _ = x.shape
        xq = self.wq(x).view(B, T, self.n_heads, self.head_dim)
        xk = self.wk(x).view(B, T, self.n_kv_heads, self.head_dim)
        xv = self.wv(x).view(B, T, self.n_kv_heads, self.head_dim)
        xq, xk = self.rotate(xq), self.rotate(xk)
        xq, xk, xv = xq.transpose(1, 2), xk.transpose(1, 2), xv.transpose(1, 2)
        xk = xk.repeat_interleave(self.n_rep, dim=1)
        xv = xv.repeat_interleave(self.n_rep, dim=1)

        visible = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, None, :]
        nowhere = ~visible.any(dim=-1, keepdim=True)

        scores = xq @ xk.mT
        scores = scores * self.softmax_scale
        scores = scores.masked_fill(~(visible | nowhere), float("-inf"))
        probs = F.softmax(scores, dim=-1)
        probs = probs.masked_fill(nowhere, 0.0)
        output = probs @ xv
        return self.wo(output.transpose(1, 2).flatten(2))
