"""Lines that end in `# wrong` must be found by the lint this file is named after, and no other line."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as sdpa


def upper_triangle(q, k, v, T):
    mask = torch.triu(torch.ones(T, T), diagonal=1).bool()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # wrong


def upper_triangle_by_position(q, k, v, T):
    mask = torch.triu(torch.ones(T, T, dtype=torch.bool), 1)
    return F.scaled_dot_product_attention(q, k, v, mask)  # wrong


def under_another_name(q, k, v, T):
    mask = torch.ones(T, T, dtype=torch.bool).triu(1)
    return sdpa(q, k, v, attn_mask=mask)  # wrong


def negated_lower_triangle(q, k, v, T):
    mask = ~torch.tril(torch.ones(T, T, dtype=torch.bool))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # wrong


def padding(q, k, v, tokens, pad_id):
    mask = (tokens == pad_id)[:, None, None, :]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # wrong


def beyond_length(q, k, v, lengths):
    mask = torch.arange(k.size(-2)) >= lengths[:, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None])  # wrong


def clear_name(q, k, v, blocked_mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=blocked_mask)  # wrong


def name_of_the_other_module(q, k, v, key_padding_mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=key_padding_mask[:, None, None, :])  # wrong


class WithBuffer(nn.Module):
    def __init__(self, T):
        super().__init__()
        self.register_buffer("mask", torch.triu(torch.ones(T, T, dtype=torch.bool), diagonal=1))

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)  # wrong

    def cut(self, q, k, v):
        T = q.size(-2)
        mask = self.mask[:T, :T]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # wrong

    def negated(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=~self.mask)


def lower_triangle(q, k, v, T):
    mask = torch.tril(torch.ones(T, T)).bool()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def negated(q, k, v, key_padding_mask):
    mask = ~key_padding_mask[:, None, None, :]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def made_additive(q, k, v, key_padding_mask):
    mask = torch.zeros_like(key_padding_mask, dtype=q.dtype).masked_fill(key_padding_mask, float("-inf"))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def made_additive_under_its_name(q, k, v, key_padding_mask):
    key_padding_mask = key_padding_mask.float() * -10000.0
    return F.scaled_dot_product_attention(q, k, v, attn_mask=key_padding_mask)


def additive_triangle(q, k, v, T):
    mask = torch.triu(torch.full((T, T), float("-inf")), diagonal=1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def unknown(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
