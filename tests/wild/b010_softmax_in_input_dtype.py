"""Report b010: https://github.com/tinygrad/tinygrad/pull/12280

What is wrong: the softmax is worked out by hand in the dtype of the inputs, bfloat16 included, instead of float32.
"""

import torch


def attend(xq, xk, xv):
    """xq, xk, xv: (bsz, seqlen, n_heads, head_dim) in float32, bfloat16 or float16."""
    scores = torch.einsum("bqhd,bkhd->bhqk", xq, xk) / xq.shape[-1] ** 0.5
    probs = torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))  # bug
    return torch.einsum("bhqk,bkhd->bqhd", probs.to(xv.dtype), xv)
