"""The attention layer of a small decoder-only language model."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    block_size: int = 32
    n_head: int = 3
    n_embd: int = 24
    dropout: float = 0.0
    bias: bool = True


class CausalSelfAttention(nn.Module):
    """Causal multi-head self-attention; the rows of c_attn are all queries, then all keys, then all values.

    x: (B, T, n_embd), T up to config.block_size
    attention_mask: int or bool (B, T); 1 = a real token that may be attended to, 0 = padding.

    A query that may look nowhere mixes no values. Returns (B, T, n_embd).
    """

    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        # queries, keys and values of all heads in one product
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.attn_dropout = nn.Dropout(config.dropout)
        self.resid_dropout = nn.Dropout(config.dropout)
        self.n_head = config.n_head
        self.n_embd = config.n_embd
        self.dropout = config.dropout
        self.flash = hasattr(F, "scaled_dot_product_attention")
        # lower triangle: token i sees tokens 0..i
        seen = torch.tril(torch.ones(config.block_size, config.block_size, dtype=torch.bool))
        self.register_buffer("bias", seen.view(1, 1, config.block_size, config.block_size), persistent=False)

    def forward(self, x, attention_mask=None):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, nh, T, hs)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)

        visible = self.bias[:, :, :T, :T]
        if attention_mask is not None:
            real = attention_mask.bool()
            visible = visible & real[:, None, None, :]

        if self.flash:
            dropout_p = self.dropout if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible, dropout_p=dropout_p)
        else:
            nowhere = ~visible.any(dim=-1, keepdim=True)
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(~(visible | nowhere), float("-inf"))
            att = F.softmax(att, dim=-1).masked_fill(nowhere, 0.0)
            att = self.attn_dropout(att)
            y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)  # all head outputs side by side
        return self.resid_dropout(self.c_proj(y))
