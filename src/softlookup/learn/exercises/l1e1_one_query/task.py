"""1.1 One query looks up.

A dictionary lookup needs a key that is equal. A soft lookup compares the query with every key, turns the
comparisons into weights that sum to one, and returns the weighted mean of all values.
"""

import torch


def soft_lookup(query, keys, values):
    """Return the output and the weights of one query.

    query: (d,)   keys: (T, d)   values: (T, d_v)

    Returns: output (d_v,) and weights (T,). The scores are plain dot products here, without a scale.
    """
    raise NotImplementedError("TODO: scores, weights, output")


if __name__ == "__main__":
    keys = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    values = torch.tensor([[10.0, 0.0], [0.0, 10.0], [5.0, 5.0]])
    print(soft_lookup(torch.tensor([2.0, 0.0]), keys, values))
