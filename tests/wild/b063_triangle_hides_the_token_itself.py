"""Report b063: https://github.com/pbloem/former/issues/10

What is wrong: the triangle starts on the diagonal, so a token cannot see itself and the first one sees nothing.
"""

import torch


def masked_self_attention(queries, keys, values):
    """Causal self-attention: a token sees itself and everything before it.

    queries, keys, values: (b * heads, t, e)
    """
    t, e = queries.shape[1:]
    dot = torch.bmm(queries / e**0.25, keys.transpose(1, 2) / e**0.25)
    rows, cols = torch.triu_indices(t, t, offset=0)  # bug
    dot[:, rows, cols] = float("-inf")
    return torch.bmm(torch.softmax(dot, dim=2), values)
