"""Report b021: https://github.com/30stomercury/Interaction-Aware-Attention-Network/issues/1

What is wrong: the fill is mask * -1e8 where the mask is 0, and that is 0.
"""

import torch


def interaction_attention(q, k, v, mask):
    """Attention over the turns of a dialogue.

    q, k, v: (B, H, T, d)
    mask: (B, 1, 1, T_k), 1 for a real turn, 0 for padding
    """
    scores = torch.matmul(q, k.transpose(2, 3)) / q.size(3) ** 0.5
    keep = mask.to(scores.dtype)
    scores = torch.where(keep == 0, keep * -1e8, scores)  # bug
    return torch.matmul(torch.softmax(scores, dim=3), v)
