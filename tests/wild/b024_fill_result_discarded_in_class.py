"""Report b024: https://github.com/opendilab/DI-engine/issues/333

What is wrong: the masked scores are computed, thrown away, and the bare ones go into the softmax.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class UnitAttention(nn.Module):
    """Attention between the units on a map. query, key, value: (B, H, N, d)."""

    def forward(self, query, key, value, mask=None):
        """mask: (B, N) bool, True where a unit exists."""
        score = torch.matmul(query, key.permute(0, 1, 3, 2)) / math.sqrt(query.shape[3])
        if mask is not None:
            present = mask.unsqueeze(1).unsqueeze(2)
            score.masked_fill(~present, value=-math.inf)  # bug
        score = F.softmax(score, dim=-1)
        return torch.matmul(score, value)
