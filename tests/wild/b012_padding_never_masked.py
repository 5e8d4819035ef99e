"""Report b012: https://github.com/tensorflow/tensorflow/issues/43941

What is wrong: the softmax runs over the whole padded source; the source mask is accepted and not used.
"""

import torch


def source_attention(query, keys, values, source_mask):
    """Let the decoder states look at the encoder states.

    query: (batch, target_len, units)   keys, values: (batch, source_len, units)
    source_mask: (batch, source_len), True for real tokens, False for padding
    """
    scores = torch.bmm(query, keys.transpose(1, 2)) / query.size(-1) ** 0.5
    weights = torch.softmax(scores, dim=-1)  # bug
    context = torch.bmm(weights, values)
    return context, weights
