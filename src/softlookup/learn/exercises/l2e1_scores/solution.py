"""2.1 Scores for a batch.

A batch holds several samples. In each of them every query meets every key of the same sample, so the scores
of one sample are a matrix: one row for each query, one column for each key.
"""

import torch


def scores_of(q, k):
    """Return the dot product of every query with every key of its sample.

    q: (B, T_q, d)   k: (B, T_k, d)

    Returns: (B, T_q, T_k), without a scale and without a softmax
    """
    return q @ k.transpose(-2, -1)  # (B, T_q, d) @ (B, d, T_k) -> (B, T_q, T_k)


if __name__ == "__main__":
    q = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [2.0, 0.0]]])  # 2 samples, 2 queries
    k = torch.tensor([[[1.0, 0.0], [3.0, 5.0], [0.0, 0.0]], [[1.0, 2.0], [1.0, -1.0], [4.0, 4.0]]])  # 3 keys
    print(scores_of(q, k))
    print(scores_of(q, k).shape)
