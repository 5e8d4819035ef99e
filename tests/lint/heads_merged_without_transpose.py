"""Lines that end in `# wrong` must be found by the lint this file is named after, and no other line."""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn


class Attention(nn.Module):
    def __init__(self, d_model, num_heads, d_head):
        super().__init__()
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.num_heads, self.d_head = num_heads, d_head

    def forward(self, x):
        B, T, C = x.shape
        q = self.q_proj(x).view(B, T, self.num_heads, self.d_head).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.num_heads, self.d_head).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.num_heads, self.d_head).transpose(1, 2)
        weights = F.softmax(q @ k.transpose(-2, -1), dim=-1)
        out = weights @ v
        return out.reshape(B, T, C)  # wrong

    def fused(self, x):
        B, T, C = x.shape
        qkv = self.qkv(x).reshape(B, T, 3, self.num_heads, self.d_head).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        out = F.scaled_dot_product_attention(q, k, v)
        return out.contiguous().view(B, T, self.num_heads * self.d_head)  # wrong

    def unknown_length(self, x, batch_size):
        v = self.v_proj(x).view(batch_size, -1, self.num_heads, self.d_head).transpose(1, 2)
        out = torch.matmul(self.weights(x), v)
        v = v.contiguous().view(batch_size, -1, self.num_heads * self.d_head)  # wrong
        return v

    def from_einops(self, x, weights):
        b, n, _ = x.shape
        v = rearrange(self.v_proj(x), "b n (h d) -> b h n d", h=self.num_heads)
        return v.reshape(b, n, -1)  # wrong

    def scaled_and_masked(self, x, mask):
        B, T, C = x.shape
        qkv = self.qkv(x).reshape(B, T, self.num_heads, 3 * self.d_head)
        q, k, v = qkv.permute(0, 2, 1, 3).chunk(3, dim=-1)
        scores = q @ k.transpose(-2, -1) / self.d_head**0.5 + mask
        return (F.softmax(scores, dim=-1) @ v).reshape(B, T, C)  # wrong

    def right(self, x):
        B, T, C = x.shape
        v = self.v_proj(x).view(B, T, self.num_heads, self.d_head).transpose(1, 2)
        return v.transpose(1, 2).reshape(B, T, C)

    def batch_and_heads(self, x):
        B, T, C = x.shape
        v = self.v_proj(x).view(B, T, self.num_heads, self.d_head).transpose(1, 2)
        return v.reshape(B * self.num_heads, T, self.d_head)

    def tokens_together(self, x):
        B, T, C = x.shape
        q = self.q_proj(x).view(B, T, self.num_heads, self.d_head)
        return q.reshape(B * T, self.num_heads, self.d_head)

    def other_words_for_the_same(self, x, n_tokens):
        B, T, H, d = x.shape
        return x.reshape(n_tokens, H, d)

    def one_name_for_two_axes(self, corr):
        batch, h, w, num_heads, _, _ = corr.shape
        return corr.reshape(batch * h * w, num_heads, h, w)

    def in_a_branch(self, x):
        if x.dim() == 4:
            b, h, t, d = x.shape
            return x.reshape(b * h, t, d)
        f, b, h, t, d = x.shape
        return x.reshape(f * b * h, t, d)
