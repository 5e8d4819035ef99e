"""Report b115: https://github.com/PAIR-code/tiny-transformers/issues/71

What is wrong: nothing divides the scores.
"""

import torch


def tiny_attention(qs, ks, vs, causal=True):
    """Attention of a tiny transformer. qs, ks, vs: (batch, seq, heads, dim); causal: hide later tokens."""
    attn = torch.einsum("bshk,bthk->bhst", qs, ks)  # bug
    if causal:
        future = torch.ones(attn.shape[-2:], dtype=torch.bool).triu(diagonal=1)
        attn = attn.masked_fill(future, -torch.inf)
    return torch.einsum("bhst,bthk->bshk", torch.softmax(attn, -1), vs)
