"""Lines that end in `# wrong` must be found by the lint this file is named after, and no other line."""

import torch
import torch.nn.functional as F
from scipy.special import softmax
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.softmax = nn.Softmax()
        self.right = nn.Softmax(dim=-1)

    def function(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-2, -1))
        return F.softmax(scores) @ v  # wrong

    def module(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        return self.softmax(scores) @ v  # wrong

    def at_once(self, q, k, v):
        scores = torch.bmm(q, k.transpose(1, 2))
        return nn.Softmax()(scores) @ v  # wrong

    def four_axes(self, scores, v):
        B, H, T_q, T_k = scores.shape
        return F.softmax(scores) @ v  # wrong

    def three_axes_behind(self, attention_logits):
        return F.softmax(attention_logits)[:, :, :-1]  # wrong

    def known_axes(self, x):
        b, c, h, w = x.shape
        return F.softmax(x.view(b, c, -1))  # wrong

    def given(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        return F.softmax(scores, dim=-1) @ v

    def given_by_position(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        return F.softmax(scores, -1) @ v

    def given_to_the_module(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        return self.right(scores) @ v

    def given_to_the_method(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        return scores.softmax(-1) @ v

    def two_axes(self, scores):
        rows, columns = scores.shape
        return F.softmax(scores)

    def of_scipy(self, q, k):
        scores = q @ k.transpose(-2, -1)
        return softmax(scores)

    def one_row_of_logits(self, logits):
        return F.softmax(logits)
