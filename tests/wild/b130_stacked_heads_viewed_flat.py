"""Report b130: https://github.com/hackiey/QAnet-pytorch/issues/2

What is wrong: the heads are stacked in front of the positions and viewed flat; with one head nobody notices.
"""

import torch
import torch.nn.functional as F
from torch import nn


class SelfAttention(nn.Module):
    """Self-attention of an encoder block with channels first; x: (batch, d_model, length)."""

    def __init__(self, d_model, num_heads=1):
        super().__init__()
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.Wqs, self.Wks, self.Wvs = (
            nn.ParameterList([nn.init.xavier_normal_(torch.empty(d_model, self.d_k)) for _ in range(num_heads)])
            for _ in range(3)
        )
        self.Wo = nn.Parameter(nn.init.xavier_normal_(torch.empty(d_model, d_model)))

    def forward(self, x):
        x = x.transpose(1, 2)
        batch, length, d_model = x.shape
        heads = []
        for Wq, Wk, Wv in zip(self.Wqs, self.Wks, self.Wvs):
            scores = torch.bmm(x @ Wq, (x @ Wk).transpose(1, 2)) / self.d_k**0.5
            heads.append(torch.bmm(F.softmax(scores, dim=2), x @ Wv))
        heads = torch.stack(heads, dim=1)
        out = heads.view(batch, length, d_model)  # bug
        return torch.matmul(out, self.Wo).transpose(1, 2)
