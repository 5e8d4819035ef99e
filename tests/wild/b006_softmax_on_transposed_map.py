"""Report b006: https://github.com/gjylt/DoubleAttentionNet/issues/3

What is wrong: the map is laid out (keys, queries), so a softmax over its last axis is one over the queries.
"""

import torch


def gather_features(query, key, value):
    """Gather features from all positions of a flattened image, channels first.

    query, key: (B, d, N)   value: (B, d_v, N)   returns (B, d_v, N); N counts positions
    """
    energy = torch.bmm(key.transpose(1, 2), query) / query.size(1) ** 0.5  # (B, N_key, N_query)
    attention = torch.softmax(energy, dim=-1)  # bug
    return torch.bmm(value, attention)
