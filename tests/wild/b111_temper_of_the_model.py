"""Report b111: https://github.com/jadore801120/attention-is-all-you-need-pytorch/issues/42

What is wrong: the temper is the root of d_model, where each head compares vectors of width d_k.
"""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """Attention whose heads lie one after another in the batch, with a weight of its own for each head."""

    def __init__(self, n_head, d_model, d_k, d_v):
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
        self.w_qs = nn.Parameter(torch.empty(n_head, d_model, d_k))
        self.w_ks = nn.Parameter(torch.empty(n_head, d_model, d_k))
        self.w_vs = nn.Parameter(torch.empty(n_head, d_model, d_v))
        for weight in (self.w_qs, self.w_ks, self.w_vs):
            nn.init.xavier_normal_(weight)
        self.temper = d_model**0.5  # bug
        self.proj = nn.Linear(n_head * d_v, d_model)

    def forward(self, q, k, v, attn_mask=None):
        """q: (mb_size, len_q, d_model)   k, v: (mb_size, len_k, d_model)

        attn_mask: (mb_size, len_q, len_k) bool, True = masked
        Returns the output and the weights, (n_head * mb_size, len_q, len_k).
        """
        mb_size = q.size(0)
        q_s = torch.matmul(q.unsqueeze(0), self.w_qs.unsqueeze(1)).flatten(0, 1)
        k_s = torch.matmul(k.unsqueeze(0), self.w_ks.unsqueeze(1)).flatten(0, 1)
        v_s = torch.matmul(v.unsqueeze(0), self.w_vs.unsqueeze(1)).flatten(0, 1)
        attn = torch.bmm(q_s, k_s.transpose(1, 2)) / self.temper
        if attn_mask is not None:
            attn = attn.masked_fill(attn_mask.repeat(self.n_head, 1, 1), -float("inf"))
        attn = attn.softmax(dim=2)
        outputs = torch.bmm(attn, v_s)
        outputs = torch.cat(torch.split(outputs, mb_size, dim=0), dim=-1)
        return self.proj(outputs), attn
