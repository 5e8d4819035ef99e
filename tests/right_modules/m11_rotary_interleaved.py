"""Neighbouring features are rotated together, only in the first part of each head. Trap f14."""

import torch
from torch import nn


def rotate_every_two(x):
    return torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)


class PartialRotaryAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        n = config.max_position_embeddings
        self.register_buffer("causal", torch.tril(torch.ones(n, n, dtype=torch.bool)).view(1, 1, n, n))
        self.num_heads = config.num_attention_heads
        self.embed_dim = config.hidden_size
        self.head_dim = self.embed_dim // self.num_heads
        self.rotary_dim = self.head_dim // 2
        self.attn_dropout = nn.Dropout(config.attn_pdrop)
        self.q_proj = nn.Linear(self.embed_dim, self.embed_dim, bias=False)
        self.k_proj = nn.Linear(self.embed_dim, self.embed_dim, bias=False)
        self.v_proj = nn.Linear(self.embed_dim, self.embed_dim, bias=False)
        self.out_proj = nn.Linear(self.embed_dim, self.embed_dim, bias=False)

    def rotate(self, x):  # (B, T, H, d)
        rates = 10000 ** (-torch.arange(0, self.rotary_dim, 2) / self.rotary_dim)
        angle = torch.outer(torch.arange(x.shape[1]), rates).repeat_interleave(2, dim=1)[None, :, None]
        turned, kept = x[..., : self.rotary_dim], x[..., self.rotary_dim :]
        turned = turned * angle.cos().to(x.dtype) + rotate_every_two(turned) * angle.sin().to(x.dtype)
        return torch.cat((turned, kept), dim=-1)

    def forward(self, hidden_states):
        B, T, _ = hidden_states.shape
        q, k, v = (p(hidden_states).view(B, T, self.num_heads, -1) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k, v = (t.transpose(1, 2) for t in (self.rotate(q), self.rotate(k), v))
        scores = torch.matmul(q, k.transpose(-1, -2)) / self.head_dim**0.5
        scores = torch.where(self.causal[:, :, :T, :T], scores, torch.finfo(scores.dtype).min)
        weights = self.attn_dropout(scores.softmax(dim=-1))
        out = torch.matmul(weights, v).permute(0, 2, 1, 3).reshape(B, T, self.embed_dim)
        return self.out_proj(out)
