"""Three jobs, three projections.

Goal: Write `self_lookup(x, w_q, w_k, w_v)`: from tokens x (T, d_model) make queries, keys and values with
three matrices, then let every token look at all of them as in 1.1. Return the output (T, d_v) and the weights
(T, T).

Checks: Both results on several sizes, with d_model, d_k and d_v equal and all different.

Ask: Which of the three matrices belongs to which job, and does each of them change your output?

Hint: A row of x is one token; a matrix (d_model, d_k) turns it into d_k numbers.

Hint: Write the shape beside every line. Two matrices of shape (T, d_k) have to give scores of shape (T, T):
one row for each token that asks, one column for each token that is found.

Hint: `softmax` over the last axis shares out each row; (T, T) @ (T, d_v) is (T, d_v).
"""

import torch

from softlookup.learn.mistakes import shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Computes

KIND = "write"
AS_GIVEN = "not-written"

#: What makes queries (the first of them), keys (the second) and values (the third); then the scores.
_PRODUCTS = ("matmul", "einsum", "linear")


def _lookup(q, k, v):
    weights = torch.softmax(q @ k.T, dim=-1)
    return weights @ v, weights


def self_lookup(x, w_q, w_k, w_v):
    return _lookup(x @ w_q, x @ w_k, x @ w_v)


def _mistake_of_the_lookup(lookup):
    """Return a function of (x, w_q, w_k, w_v) from one of (q, k, v); its name and page stay."""

    def mistake(x, w_q, w_k, w_v):
        return lookup(x @ w_q, x @ w_k, x @ w_v)

    mistake.__name__, mistake.__doc__ = lookup.__name__, lookup.__doc__
    vars(mistake).update(vars(lookup))
    return mistake


@shown_at(*_PRODUCTS, which=0)
def projection_reused(x, w_q, w_k, w_v):
    """Queries and keys are made with the same matrix: every token is found by what it looks for itself.

    Ask: How could a verb look for its subject if it asked for what it is?
    """
    return _lookup(x @ w_q, x @ w_q, x @ w_v)


@shown_at(*_PRODUCTS, which=0)
def keys_reused_for_queries(x, w_q, w_k, w_v):
    """The queries are made with the matrix of the keys.

    Ask: Which of the matrices can be changed without any change in your output?
    """
    return _lookup(x @ w_k, x @ w_k, x @ w_v)


def values_from_key_matrix(x, w_q, w_k, w_v):
    """The values are made with the matrix of the keys.

    Ask: How wide should the output be, and how wide are the keys?
    """
    return _lookup(x @ w_q, x @ w_k, x @ w_k)


def value_unprojected(x, w_q, w_k, w_v):
    """The tokens themselves are mixed, not their values.

    Ask: Which of the matrices is never used?
    """
    return _lookup(x @ w_q, x @ w_k, x)


@shown_at(*_PRODUCTS, which=0)
def queries_unprojected(x, w_q, w_k, w_v):
    """The tokens themselves are used as queries.

    Ask: Which of the matrices is never used?
    """
    return _lookup(x, x @ w_k, x @ w_v)


@shown_at(*_PRODUCTS, which=1)
def keys_unprojected(x, w_q, w_k, w_v):
    """The tokens themselves are used as keys.

    Ask: Which of the matrices is never used?
    """
    return _lookup(x @ w_q, x, x @ w_v)


@shown_at(*_PRODUCTS, which=0)
def projections_transposed(x, w_q, w_k, w_v):
    """The matrices are turned round before they meet the tokens.

    Ask: For a matrix of shape (d_model, d_k), over which of its axes does one sum?
    """
    return _lookup(x @ w_q.T, x @ w_k.T, x @ w_v.T)


@_mistake_of_the_lookup
@shown_at(*_PRODUCTS, which=3)
def scores_transposed(q, k, v):
    """Rows and columns of the scores have changed places: each key asks, and the queries are found.

    Ask: In the weights a row belongs to the token that asks: whose query stands in row 0 of your scores?
    """
    return _lookup(k, q, v)


@_mistake_of_the_lookup
@shown_at("softmax", "div", "truediv")
def softmax_over_queries(q, k, v):
    """Each column of the weights sums to one, the rows do not.

    Ask: Who hands out one unit of attention: the token that asks or the token that is found?
    """
    weights = torch.softmax(q @ k.T, dim=0)
    return weights @ v, weights


@_mistake_of_the_lookup
@shown_at("matmul", "einsum")
def softmax_missing(q, k, v):
    """The raw dot products are used as weights.

    Ask: What do the weights of one token have to sum to?
    """
    return q @ k.T @ v, q @ k.T


@_mistake_of_the_lookup
@shown_at("softmax", "div", "truediv")
def scale_applied(q, k, v):
    """The dot products are scaled: that comes in the next lesson; here they are taken as they are.

    Ask: Which line changes the scores before the softmax?
    """
    return _lookup(q / q.size(-1) ** 0.5, k, v)


@_mistake_of_the_lookup
@shown_at("matmul", "einsum")
def weights_transposed(q, k, v):
    """The weights are turned round before they mix the values.

    Ask: The output of token 0 is a mean of values: do its shares stand in a row or in a column?
    """
    _, weights = _lookup(q, k, v)
    return weights.T @ v, weights


@_mistake_of_the_lookup
def outputs_swapped(q, k, v):
    """The two results come in the other order: the output first, then the weights.

    Ask: What is the shape of the first thing that you return?
    """
    return _lookup(q, k, v)[::-1]


_MAKE = torch.Generator().manual_seed(4)


def _given(t, d_model, d_k, d_v):
    sizes = (t, d_model), (d_model, d_k), (d_model, d_k), (d_model, d_v)
    return Given(*(torch.randn(*size, generator=_MAKE) for size in sizes))


PARTS = (
    Computes(
        "self_lookup",
        self_lookup,
        [_given(2, 3, 3, 3), _given(3, 4, 2, 3), _given(4, 3, 4, 4), _given(5, 5, 3, 2)],
        [
            projection_reused,
            keys_reused_for_queries,
            values_from_key_matrix,
            value_unprojected,
            queries_unprojected,
            keys_unprojected,
            projections_transposed,
            scores_transposed,
            softmax_over_queries,
            softmax_missing,
            scale_applied,
            weights_transposed,
            outputs_swapped,
        ],
    ),
)
