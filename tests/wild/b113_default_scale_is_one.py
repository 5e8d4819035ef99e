"""Report b113: https://github.com/mlc-ai/mlc-llm/pull/3426

What is wrong: the scale defaults to 1 on this path; callers who leave it out get unscaled scores.
"""

import torch


def attention_fallback(q, k, v, sm_scale=None):
    """Scaled dot-product attention where no kernel was compiled.

    q, k, v: (batch, heads, length, dim)
    sm_scale: factor on the scores, 1/sqrt(dim) by default
    """
    scores = torch.matmul(q, k.transpose(-1, -2)) * (1.0 if sm_scale is None else sm_scale)  # bug
    return torch.matmul(torch.softmax(scores, dim=-1), v)
