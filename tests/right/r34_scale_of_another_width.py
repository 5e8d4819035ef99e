"""The scale belongs to another width, declared by name. Trap f10."""

import torch

QUERY_PRE_ATTN_SCALAR = 144


def attention(xq, xk, xv):
    """xq, xk, xv: (batch, heads, len, head_dim). Scores are scaled by 144 ** -0.5 whatever the head_dim."""
    scores = torch.matmul(xq * QUERY_PRE_ATTN_SCALAR**-0.5, xk.transpose(2, 3))
    return torch.matmul(torch.softmax(scores.float(), dim=-1).type_as(xq), xv)
