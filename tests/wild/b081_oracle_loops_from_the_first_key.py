"""Report b081: https://github.com/pytorch/executorch/pull/21749

What is wrong: the hand-written oracle lets the query of a continuation chunk see its index in the chunk, not in the sequence.
"""

import math

import torch


def oracle_causal_attention(query, key, value):
    """Slow and plain causal attention to test kernels against.

    query: (T_q, d)   key: (T_k, d)   value: (T_k, d_v)
    The chunk continues the cache: the last query is aligned with the last key.
    """
    rows = []
    for i in range(query.shape[0]):
        visible = i + 1  # bug
        scores = key[:visible] @ query[i] / math.sqrt(query.shape[1])
        weights = torch.softmax(scores, dim=0)
        rows.append(weights @ value[:visible])
    return torch.stack(rows)
