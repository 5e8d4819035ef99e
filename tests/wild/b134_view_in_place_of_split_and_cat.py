"""Report b134: https://github.com/jadore801120/attention-is-all-you-need-pytorch/issues/7

What is wrong: the stack of heads is viewed as (batch, length, features) where its parts have to be put side by side.
"""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """Self-attention with the heads stacked along the batch; x: (mb_size, length, d_model)."""

    def __init__(self, n_head, d_model):
        super().__init__()
        self.n_head = n_head
        self.d_k = d_model // n_head
        self.w_qs = nn.Linear(d_model, d_model, bias=False)
        self.w_ks = nn.Linear(d_model, d_model, bias=False)
        self.w_vs = nn.Linear(d_model, d_model, bias=False)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        mb_size, length, d_model = x.size()
        q_s, k_s, v_s = (torch.cat(w(x).split(self.d_k, dim=-1), dim=0) for w in (self.w_qs, self.w_ks, self.w_vs))
        attn = torch.bmm(q_s, k_s.transpose(1, 2)) / self.d_k**0.5
        outputs = torch.bmm(torch.softmax(attn, dim=-1), v_s)  # (n_head * mb_size, length, d_k)
        outputs = outputs.view(mb_size, length, d_model)  # bug
        return self.proj(outputs)
