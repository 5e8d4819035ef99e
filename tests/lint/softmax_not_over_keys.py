"""Lines that end in `# wrong` must be found by the lint this file is named after, and no other line."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.softmax = nn.Softmax(dim=1)
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_model, d_model)

    def queries(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / 8
        return F.softmax(scores, dim=-2) @ v  # wrong

    def einsum(self, q, k, v):
        scores = torch.einsum("bhid,bhjd->bhij", q, k)
        weights = scores.softmax(dim=2)  # wrong
        return weights @ v

    def einsum_heads_last(self, query, key, v):
        attn = torch.einsum("bihd,bjhd->bijh", query, key) * 0.1
        return F.softmax(attn, dim=1)  # wrong

    def heads(self, x, v):
        B, T, C = x.shape
        q = self.q_proj(x).view(B, T, self.num_heads, -1).transpose(1, 2)
        k = self.q_proj(x).view(B, T, self.num_heads, -1).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(2, 3))
        return self.softmax(scores) @ v  # wrong

    def masked(self, q, k, mask):
        scores = torch.matmul(q, k.transpose(-1, -2)) / 8
        scores = scores.masked_fill(mask == 0, float("-inf"))
        return torch.softmax(scores, dim=-2)  # wrong

    def keys(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / 8
        return F.softmax(scores, dim=-1) @ v

    def keys_by_number(self, q, k, v):
        scores = torch.einsum("bhid,bhjd->bhij", q, k)
        return scores.softmax(dim=3) @ v

    def keys_first(self, q, k, v):
        scores = k @ q.transpose(-2, -1)
        return F.softmax(scores, dim=-2).transpose(-2, -1) @ v

    def keys_second_to_last(self, query, key):
        attn = torch.einsum("bihd,bjhd->bijh", query, key)
        return F.softmax(attn, dim=2)

    def unknown_rank(self, q, k):
        return F.softmax(q @ k.transpose(-2, -1), dim=2)

    def pooling(self, x):
        return F.softmax(self.score(x), dim=1)

    def linear_attention(self, q, k, v):
        return q.softmax(dim=-1) @ (k.softmax(dim=-2).transpose(-2, -1) @ v)

    def both_ways(self, query, key):
        sim = torch.einsum("bnd,bmd->bnm", query, key)
        return F.softmax(sim, dim=1) * F.softmax(sim, dim=2)

    def renormalised(self, q, k, v):
        dots = torch.einsum("bid,bjd->bij", q, k)
        attn = dots.softmax(dim=1) + 1e-8
        attn = attn / attn.sum(dim=-1, keepdim=True)
        return attn @ v


class SlotAttention(nn.Module):
    def forward(self, q, k, v):
        dots = torch.einsum("bid,bjd->bij", q, k)
        return dots.softmax(dim=1) @ v
