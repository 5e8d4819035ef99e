"""Lines that end in `# wrong` must be found by the lint this file is named after, and no other line."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def positive(self, scores, mask):
        scores = scores.masked_fill(mask == 0, 1e-9)  # wrong
        return F.softmax(scores, dim=-1)

    def negative(self, scores, mask):
        scores = scores.masked_fill(mask == 0, -1e-9)  # wrong
        return scores.softmax(-1)

    def in_place(self, scores, mask):
        scores.masked_fill_(mask, value=-1e-10)  # wrong
        return torch.softmax(scores, dim=-1)

    def where(self, scores, mask):
        scores = torch.where(mask, scores, 1e-9)  # wrong
        return scores.softmax(-1)

    def assigned(self, scores, mask):
        scores[mask] = -1e-9  # wrong
        return scores.softmax(-1)

    def nested(self, scores, mask):
        return F.softmax(scores.masked_fill(mask, 1e-9), dim=-1)  # wrong

    def full(self, scores, mask):
        scores = torch.where(mask, scores, torch.full_like(scores, 1e-9))  # wrong
        return scores.softmax(-1)

    def default(self, scores, mask, epsilon=1e-12):
        scores = scores.masked_fill(mask == 0, -epsilon)  # wrong
        return scores.softmax(-1)

    def big(self, scores, mask):
        scores = scores.masked_fill(mask == 0, -1e9)
        return F.softmax(scores, dim=-1)

    def after_the_softmax(self, scores, mask):
        weights = scores.softmax(-1)
        return weights.masked_fill(mask, 1e-9)

    def elsewhere(self, x, scores, mask):
        x = x.masked_fill(mask, 1e-9)
        return x.log(), scores.softmax(-1)

    def an_eps(self, scores):
        return scores.softmax(-1) + 1e-9
