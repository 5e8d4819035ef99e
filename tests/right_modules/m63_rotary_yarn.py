"""Rotary positions in which slow features are interpolated and fast ones kept, and both tables grow (YaRN).

Peng et al. 2023, arXiv 2309.00071.
"""

import math

import torch
from torch import nn


def yarn_rates(dim, base, factor, trained_length, beta_fast=32.0, beta_slow=1.0):
    """(dim / 2,): the rate of each pair, between that of the base and that divided by the factor."""

    def pair_that_turns(times):
        return dim * math.log(trained_length / (times * 2 * math.pi)) / (2 * math.log(base))

    low = max(math.floor(pair_that_turns(beta_fast)), 0)
    high = min(math.ceil(pair_that_turns(beta_slow)), dim - 1)
    pairs = torch.arange(dim // 2).float()
    interpolated = ((pairs - low) / max(high - low, 0.001)).clamp(0, 1)
    rates = base ** (-2 * pairs / dim)
    return rates / factor * interpolated + rates * (1 - interpolated)


class YarnAttention(nn.Module):
    """Causal self-attention. x: (B, T, dim); attention_mask: bool (B, T), True = a real token."""

    def __init__(self, dim, n_heads, n_kv_heads, rope_theta=10000.0, yarn_factor=8.0, trained_length=64):
        super().__init__()
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.head_dim = dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)
        self.attention_factor = 0.1 * math.log(yarn_factor) + 1.0
        rates = yarn_rates(self.head_dim, rope_theta, yarn_factor, trained_length)
        self.register_buffer("inv_freq", rates, persistent=False)

    def tables(self, x):
        angles = torch.outer(torch.arange(x.shape[1], device=x.device).float(), self.inv_freq.float())
        angles = torch.cat((angles, angles), dim=-1)[None, None]
        cos, sin = angles.cos() * self.attention_factor, angles.sin() * self.attention_factor
        return cos.to(x.dtype), sin.to(x.dtype)

    def forward(self, x, attention_mask=None):
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.wk(x).view(B, T, self.n_kv_heads, self.head_dim).transpose(1, 2)
        v = self.wv(x).view(B, T, self.n_kv_heads, self.head_dim).transpose(1, 2)
        cos, sin = self.tables(x)
        q, k = (t * cos + torch.cat((-t[..., t.shape[-1] // 2 :], t[..., : t.shape[-1] // 2]), -1) * sin for t in (q, k))
        k, v = (t.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for t in (k, v))
        allowed = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, None, :]
        nowhere = ~allowed.any(dim=-1, keepdim=True)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        weights = scores.masked_fill(~(allowed | nowhere), float("-inf")).softmax(dim=-1)
        weights = weights.masked_fill(nowhere, 0.0)
        return self.wo((weights @ v).transpose(1, 2).flatten(2))
