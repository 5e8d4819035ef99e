"""Report b001: https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146

What is wrong: scores are laid out (batch, query, key, head) and the softmax runs over the query axis.
"""

import torch


def spatial_attention(q, k, v):
    """Let every pixel of a feature map look at every other.

    q, k, v: [batch, pixels, heads, d_k]
    """
    d_k = q.shape[-1]
    attn = torch.einsum("bihd,bjhd->bijh", q, k) * d_k**-0.5
    attn = attn.softmax(dim=1)  # bug
    return torch.einsum("bijh,bjhd->bihd", attn, v)
