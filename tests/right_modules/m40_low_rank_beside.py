"""Frozen projections with small trainable ones beside them; the second factor starts at zero."""

import math

import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, in_dim, out_dim, rank=4, alpha=8, dropout=0.0):
        super().__init__()
        self.base = nn.Linear(in_dim, out_dim, bias=False)
        self.base.weight.requires_grad_(False)
        self.lora_a = nn.Linear(in_dim, rank, bias=False)
        self.lora_b = nn.Linear(rank, out_dim, bias=False)
        nn.init.zeros_(self.lora_b.weight)
        self.dropout = nn.Dropout(dropout)
        self.factor = alpha / rank

    def forward(self, x):
        return self.base(x) + self.factor * self.lora_b(self.lora_a(self.dropout(x)))


class LoRACausalAttention(nn.Module):
    def __init__(self, embed_dim, num_heads, max_seq_len):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = LoRALinear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.v_proj = LoRALinear(embed_dim, embed_dim)
        self.output_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.register_buffer("future", torch.ones(max_seq_len, max_seq_len).triu(1).bool(), persistent=False)

    def forward(self, x):
        b, s, d = x.shape
        q = self.q_proj(x).view(b, s, self.num_heads, -1).transpose(1, 2)
        k = self.k_proj(x).view(b, s, self.num_heads, -1).transpose(1, 2)
        v = self.v_proj(x).view(b, s, self.num_heads, -1).transpose(1, 2)
        scores = q @ k.transpose(2, 3) / math.sqrt(d / self.num_heads)
        scores = scores.masked_fill(self.future[:s, :s], -math.inf)
        return self.output_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, d))
