"""Report b108: https://github.com/omihub777/ViT-CIFAR/pull/11

What is wrong: the scores are divided by the root of all features, not of those of one head.
"""

import torch
import torch.nn.functional as F
from torch import nn


class MultiHeadSelfAttention(nn.Module):
    """Attention between the patches of an image; x: (b, n, feats)."""

    def __init__(self, feats: int, head: int = 8):
        super().__init__()
        self.head = head
        self.feats = feats
        self.head_feats = feats // head
        self.sqrt_d = self.feats**0.5  # bug
        self.q = nn.Linear(feats, feats)
        self.k = nn.Linear(feats, feats)
        self.v = nn.Linear(feats, feats)
        self.o = nn.Linear(feats, feats)

    def forward(self, x):
        b, n, _ = x.size()
        q = self.q(x).view(b, n, self.head, self.head_feats).transpose(1, 2)
        k = self.k(x).view(b, n, self.head, self.head_feats).transpose(1, 2)
        v = self.v(x).view(b, n, self.head, self.head_feats).transpose(1, 2)
        score = F.softmax(torch.einsum("bhif,bhjf->bhij", q, k) / self.sqrt_d, dim=-1)
        attn = torch.einsum("bhij,bhjf->bihf", score, v)
        return self.o(attn.flatten(2))
