"""Lines that end in `# wrong` must be found by the lint this file is named after, and no other line."""

import torch
from torch import nn


class Attention(nn.Module):
    def chained(self, x, weights, v):
        B, T, C = x.shape
        v = v.view(B, T, self.heads, self.d_head).transpose(1, 2)
        return v.transpose(1, 2).view(B, T, C)

    def merged(self, weights, v, B, T):
        B, H, T, d = v.shape
        return v.transpose(1, 2).view(B, T, -1)  # wrong

    def product(self, v):
        B, H, T, d = v.shape
        return v.permute(0, 2, 1, 3).view(B, T, H * d)  # wrong

    def through_a_name(self, v):
        B, H, T, d = v.shape
        v = v.transpose(1, 2)
        return v.view(B, T, H * d)  # wrong

    def moved_twice(self, v):
        B, H, T, d = v.shape
        return v.transpose(1, 2).transpose(0, 1).view(T, B, -1)  # wrong

    def moved_back(self, x):
        B, T, C = x.shape
        x = x.view(B, T, self.heads, self.d_head).permute(0, 2, 1, 3)
        x[:, 0] = 0.0
        x = x.permute(0, 2, 1, 3).view(B, T, self.heads * self.d_head)
        return x

    def contiguous(self, v):
        B, H, T, d = v.shape
        return v.transpose(1, 2).contiguous().view(B, T, -1)

    def reshape(self, v):
        B, H, T, d = v.shape
        return v.transpose(1, 2).reshape(B, T, -1)

    def neighbours_stay(self, v):
        B, H, T, d = v.shape
        return v.permute(2, 3, 0, 1).view(T, d, -1)

    def splits(self, x):
        B, T, C = x.shape
        return x.transpose(1, 2).view(B, self.heads, -1, T)

    def one_head(self, x, T):
        B, T, C = x.shape
        return x.unsqueeze(1).transpose(1, 2).view(B, T, -1)

    def unknown(self, x, B, T):
        return x.transpose(1, 2).view(B, T, -1)
