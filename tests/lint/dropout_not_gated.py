"""Lines that end in `# wrong` must be found by the lint this file is named after, and no other line."""

import torch
import torch.nn.functional as F
from flash_attn import flash_attn_func
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class Plain(nn.Module):
    def __init__(self, config, dropout=0.1):
        super().__init__()
        self.dropout = dropout
        self.config = config
        self.attn_dropout = nn.Dropout(dropout)
        self.none = 0.0

    def attribute(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)  # wrong

    def by_position(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask, self.dropout)  # wrong

    def from_a_config(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.config.attn_pdrop)  # wrong

    def rate_of_a_module(self, q, k, v):
        return scaled_dot_product_attention(q, k, v, dropout_p=self.attn_dropout.p)  # wrong

    def number(self, q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1)  # wrong

    def through_a_name(self, q, k, v):
        rate = self.dropout
        return F.scaled_dot_product_attention(q, k, v, dropout_p=rate)  # wrong

    def gated_by_something_else(self, q, k, v, mask):
        rate = self.dropout if mask is None else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=rate)  # wrong

    def another_kernel(self, q, k, v):
        return flash_attn_func(q, k, v, dropout_p=self.dropout)  # wrong

    def gated(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0)

    def gated_by_a_product(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout * self.training)

    def gated_through_a_name(self, q, k, v):
        rate = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=rate)

    def gated_by_a_statement(self, q, k, v):
        rate = 0.0
        if self.training:
            rate = self.dropout
        return F.scaled_dot_product_attention(q, k, v, dropout_p=rate)

    def gated_by_a_branch(self, q, k, v):
        if self.training:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        return F.scaled_dot_product_attention(q, k, v)

    def gated_by_leaving(self, q, k, v):
        if not self.training:
            return F.scaled_dot_product_attention(q, k, v)
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)

    def gated_by_an_argument(self, q, k, v, deterministic):
        rate = 0.0 if deterministic else self.dropout
        return F.scaled_dot_product_attention(q, k, v, dropout_p=rate)

    def always_zero(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.none)


class Property(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.p = dropout

    @property
    def rate(self):
        return self.p if self.training else 0.0

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.rate)


class Switched(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.p, self.rate = dropout, dropout

    def train(self, mode=True):
        self.rate = self.p if mode else 0.0
        return super().train(mode)

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.rate)


class OnlyWithoutDropout(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.dropout = dropout
        self.flash = hasattr(F, "scaled_dot_product_attention") and self.dropout == 0.0

    def forward(self, q, k, v):
        if self.flash:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        return self.by_hand(q, k, v)


def the_caller_decides(q, k, v, dropout_p=0.1):
    return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p)


def zero(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, dropout_p=0.0)


def backward(ctx, grad):
    q, k, v = ctx.saved_tensors
    return F.scaled_dot_product_attention(q, k, v, dropout_p=ctx.dropout_p)
