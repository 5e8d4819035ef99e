"""Lines that end in `# wrong` must be found by the lint this file is named after, and no other line."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, d_model, num_heads, d_head):
        super().__init__()
        self.q_proj = nn.Linear(d_model, d_model)
        self.fc_Q = nn.Linear(d_model, d_model)
        self.num_heads, self.d_head = num_heads, d_head

    def straight(self, x):
        B, T, C = x.shape
        return self.q_proj(x).view(B, self.num_heads, T, self.d_head)  # wrong

    def straight_reshape(self, x):
        batch, tokens, width = x.size()
        q = self.q_proj(x)
        return q.reshape(batch, self.num_heads, tokens, self.d_head)  # wrong

    def batch_and_heads(self, x):
        batch_size = x.size(0)
        Q = self.fc_Q(x)
        return Q.view(batch_size * self.num_heads, -1, self.d_head)  # wrong

    def right(self, x):
        B, T, C = x.shape
        return self.q_proj(x).view(B, T, self.num_heads, self.d_head).transpose(1, 2)

    def sequence_first(self, x):
        T, B, C = x.shape
        return self.q_proj(x).view(T, B * self.num_heads, self.d_head).transpose(0, 1)

    def sequence_first_unknown(self, x, B):
        return self.q_proj(x).view(-1, B * self.num_heads, self.d_head).transpose(0, 1)

    def moved_before(self, x):
        B, T, C = x.shape
        q = self.q_proj(x).transpose(1, 2)
        return q.reshape(B, self.num_heads, self.d_head, T)

    def image(self, x, H, W):
        B, L, C = x.shape
        return self.q_proj(x).view(B, H, W, C)

    def broadcast(self, mask, num_heads):
        batch_size, seq_length = mask.shape
        slopes = torch.arange(num_heads)
        alibi = slopes[..., None] * (mask.cumsum(dim=-1) * mask)[:, None, :]
        return alibi.reshape(batch_size * num_heads, 1, seq_length)

    def grouped(self, q, num_kv_heads, groups):
        B, T, H, d = q.shape
        return q.reshape(B, T, num_kv_heads, groups, d)
