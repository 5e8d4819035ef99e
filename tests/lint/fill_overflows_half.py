"""Lines that end in `# wrong` must be found by the lint this file is named after, and no other line."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def forward(self, q, k, mask):
        with torch.autocast("cuda", dtype=torch.float16):
            scores = q @ k.transpose(-2, -1)
            scores = scores.masked_fill(mask == 0, -1e9)  # wrong
            return F.softmax(scores, dim=-1)

    def in_place(self, q, k, mask):
        scores = torch.matmul(q.half(), k.half().transpose(-2, -1))
        scores.masked_fill_(mask, -1e8)  # wrong
        return scores.softmax(-1)

    def nested(self, q, k, mask):
        return F.softmax(self.half_scores(q.half(), k.half()).masked_fill(mask, -1e9), dim=-1)  # wrong

    def fits(self, q, k, mask):
        scores = (q.half() @ k.half().transpose(-2, -1)).masked_fill(mask, -1e4)
        return scores.softmax(-1)

    def infinite(self, q, k, mask):
        scores = (q.half() @ k.half().transpose(-2, -1)).masked_fill(mask, float("-inf"))
        return scores.softmax(-1)

    def float_first(self, q, k, mask):
        scores = (q.half() @ k.half().transpose(-2, -1)).float()
        scores = scores.masked_fill(mask, -1e9)
        return scores.softmax(-1)

    def of_the_dtype(self, q, k, mask):
        scores = q.half() @ k.half().transpose(-2, -1)
        scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
        return scores.softmax(-1)
