"""Report b033: https://github.com/mlverse/torch/pull/1208

What is wrong: the branch for bool masks adds them; only float masks may be added, bool masks must fill.
"""

import torch


def multi_head_scores_to_context(query, key, value, key_padding_mask=None):
    """query, key, value: (N, H, L, E).

    key_padding_mask: (N, S), bool with True = ignore this key, or float and then added to the scores
    """
    scores = torch.matmul(query, key.transpose(-1, -2)) / query.shape[-1] ** 0.5
    if key_padding_mask is not None:
        pad = key_padding_mask[:, None, None, :]
        if pad.dtype == torch.bool:
            scores = scores + pad  # bug
        else:
            scores = scores + pad.to(scores.dtype)
    return torch.matmul(scores.softmax(dim=-1), value)
