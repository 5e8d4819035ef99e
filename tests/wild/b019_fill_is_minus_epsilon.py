"""Report b019: https://github.com/hyunwoongko/transformer/issues/10

What is wrong: masked scores become -1e-12, which is an ordinary score.
"""

import math

from torch import nn


class ScaledAttention(nn.Module):
    """Compute attention of every query to every key.

    q, k, v: [batch_size, head, length, d_tensor]
    mask: 0 where a key is to be ignored, 1 elsewhere
    """

    def __init__(self):
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, q, k, v, mask=None, epsilon=1e-12):
        batch_size, head, length, d_tensor = k.size()
        k_t = k.transpose(2, 3)
        score = (q @ k_t) / math.sqrt(d_tensor)
        if mask is not None:
            score = score.masked_fill(mask == 0, -epsilon)  # bug
        score = self.softmax(score)
        v = score @ v
        return v, score
