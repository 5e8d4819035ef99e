"""5.5 Drop weights, but only in training.

Dropout forgets some of the weights at random, so that a model does not lean on one key alone. What is kept is
divided by 1 - p: on average every weight stays what it was. In use nothing is dropped.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class DroppingAttention(nn.Module):
    """Scaled dot-product attention that drops weights with the probability `dropout`, in training mode only.

    q: (B, H, T_q, d_head)   k: (B, H, T_k, d_head)   v: (B, H, T_k, d_v)

    Returns: output (B, H, T_q, d_v) and the weights that mixed it, (B, H, T_q, T_k), dropped ones 0.
    """

    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, T_k)
        weights = torch.softmax(scores, dim=-1)  # (B, H, T_q, T_k)
        weights = F.dropout(weights, self.dropout, training=self.training)  # (B, H, T_q, T_k)
        return weights @ v, weights  # (B, H, T_q, d_v), (B, H, T_q, T_k)


if __name__ == "__main__":
    q, k, v = torch.randn(3, 1, 1, 4, 8)
    layer = DroppingAttention(dropout=0.5)
    for training in (True, False):
        _, weights = layer.train(training)(q, k, v)
        print("training" if training else "in use  ", "rows sum to", weights.sum(dim=-1).flatten().tolist())
