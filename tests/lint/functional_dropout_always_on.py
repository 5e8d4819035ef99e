"""Lines that end in `# wrong` must be found by the lint this file is named after, and no other line."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.dropout = dropout

    def attribute(self, q, k, v):
        weights = (q @ k.transpose(-2, -1)).softmax(-1)
        weights = F.dropout(weights, self.dropout)  # wrong
        return weights @ v

    def keyword(self, attn, v):
        attn = F.dropout(attn, p=self.dropout)  # wrong
        return attn @ v

    def default_rate(self, attn_probs, v):
        return F.dropout(attn_probs) @ v  # wrong

    def full_name(self, attn_weights, v):
        return torch.nn.functional.dropout(attn_weights, self.dropout) @ v  # wrong

    def given(self, attn, v):
        return F.dropout(attn, p=self.dropout, training=self.training) @ v

    def given_by_position(self, attn, v):
        return F.dropout(attn, self.dropout, self.training) @ v

    def branch(self, attn, v):
        if self.training:
            attn = F.dropout(attn, self.dropout)
        return attn @ v

    def zero(self, attn, v):
        return F.dropout(attn, 0.0) @ v

    def no_attention(self, hidden):
        return F.dropout(hidden, self.dropout)


def the_caller_decides(attn, v, dropout_p):
    if dropout_p > 0.0:
        attn = F.dropout(attn, dropout_p)
    return attn @ v
