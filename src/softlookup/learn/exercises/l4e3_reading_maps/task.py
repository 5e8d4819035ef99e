"""4.3 Read a map.

The weights of one head are a map: one row for each query, one column for each key. A map is a record of one
step of routing, not an explanation. But three facts must hold in every causal map, whatever a model has
learnt: rows sum to one, nothing looks ahead, nothing looks at padding. Write these three down as code.
"""

import torch


def rows_sum_to_one(weights):
    """Return True when every row sums to one, give or take 1e-5 for rounding.

    weights: (..., T, T), row = query, column = key
    """
    raise NotImplementedError("TODO")


def future_is_zero(weights):
    """Return True when no query gives any weight to a key after it: not a rounding error, exactly 0.

    weights: (..., T, T), row = query, column = key
    """
    raise NotImplementedError("TODO")


def padding_is_zero(weights, real):
    """Return True when no query gives any weight to a padded key: exactly 0.

    weights: (..., T, T), row = query, column = key
    real: (T,), boolean, True = a real token, False = padding
    """
    raise NotImplementedError("TODO")


if __name__ == "__main__":
    real = torch.tensor([True, True, True, False])
    scores = torch.tensor([[1.0, 2, 0, 3], [0, 1, 2, 1], [2, 0, 1, 0], [1, 1, 0, 2]])
    causal = torch.ones(4, 4).tril().bool()
    maps = {
        "a plain map": scores.softmax(-1),
        "a causal map": scores.masked_fill(~causal, -torch.inf).softmax(-1),
        "causal, without padding": scores.masked_fill(~(causal & real), -torch.inf).softmax(-1),
        "zeroed after the softmax": scores.softmax(-1) * (causal & real),
    }
    for name, weights in maps.items():
        facts = rows_sum_to_one(weights), future_is_zero(weights), padding_is_zero(weights, real)
        print(f"{name:25}", *facts)
