"""Report b013: https://github.com/gabrielmittag/NISQA/issues/17

What is wrong: probabilities, not scores, are filled with minus infinity.
"""

import math

import torch


def pool_frames(q, k, v, valid):
    """Attention between the frames of a recording.

    q, k, v: (B, T, d)
    valid: (B, T_k) bool, True = a real frame
    """
    scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[2])
    att = torch.softmax(scores, dim=2)
    att = att.masked_fill(~valid[:, None, :], float("-inf"))  # bug
    return torch.bmm(att, v)
