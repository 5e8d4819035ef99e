"""4.4 Take one source away.

A map shows where a query looked, not what the output needed. To learn that, run an experiment: take one
source away, leave everything else as it is, and compare the outputs. Away means that the lookup runs as if
that position had never been there.
"""

import torch


def attend(scores, values):
    """Return the lookup of lessons 2 and 3: (T_q, T_k) scores, hidden ones -inf; (T_k, d_v) values."""
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    """Return what the lookup gives as if the key and value at position `source` were not there.

    scores: (T_q, T_k), before the softmax; hidden ones are -inf
    values: (T_k, d_v)
    source: the position that is taken away, 0 to T_k - 1

    Returns: (T_q, d_v). The caller's tensors stay as they are.

    Raises: ValueError when a query has nothing left to look at.
    """
    left = scores.clone()  # the caller still needs the scores as they are
    left[:, source] = -torch.inf
    if (left == -torch.inf).all(dim=-1).any():
        raise ValueError(f"without source {source} a query has nothing left to look at")
    return attend(left, values)


def effect_of(scores, values, source):
    """Return how far the output of each query moves when `source` is taken away: (T_q,), Euclidean length."""
    return (attend(scores, values) - output_without(scores, values, source)).norm(dim=-1)


if __name__ == "__main__":
    scores = torch.tensor([[2.0, 0.0, 0.0], [2.0, 2.0, 0.0]])
    values = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 5.0]])
    print("weights", torch.softmax(scores, dim=-1).tolist())
    for source in range(3):
        # The largest weight is not always the largest effect: sources 0 and 1 carry the same value.
        print(f"without {source}: outputs move by", effect_of(scores, values, source).tolist())
