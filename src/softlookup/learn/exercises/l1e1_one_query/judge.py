"""One query looks up.

Goal: Write `soft_lookup(query, keys, values)`: one query of shape (d,) is compared with T keys (T, d) by dot
products, the softmax of these makes weights (T,), and the weights mix the values (T, d_v). Return the output
(d_v,) and the weights.

Checks: Both results on several sizes, also where d_v differs from d and where dot products are large.

Ask: For each key there is one number that says how well it fits: what is done to these numbers, and over what
do the values get summed?

Hint: Three lines are enough: scores, weights, output. Write the shape of each as a comment beside it.

Hint: The dot product of the query with every key at once is a product of the matrix keys (T, d) and the
vector query (d,).

Hint: Softmax over the keys gives numbers that sum to one; weights @ values sums over the keys, so that T goes
away and d_v stays.
"""

import torch

from softlookup.learn.mistakes import shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Computes

KIND = "write"
AS_GIVEN = "not-written"


def soft_lookup(query, keys, values):
    weights = torch.softmax(keys @ query, dim=-1)
    return weights @ values, weights


@shown_at("sum", "div", "truediv", "normalize")
def softmax_not_exponential(query, keys, values):
    """The scores are divided by their sum, without the exponential.

    Ask: what becomes of a key whose dot product is negative?
    """
    scores = keys @ query
    weights = scores / scores.sum()
    return weights @ values, weights


@shown_at("argmax", "max", "one_hot")
def hardest_key_only(query, keys, values):
    """Only the best key is read: that is a hard lookup, through which no gradient flows to the others.

    Ask: how much should the second-best key count when it fits almost as well?
    """
    scores = keys @ query
    weights = torch.nn.functional.one_hot(scores.argmax(), len(keys)).to(scores.dtype)
    return weights @ values, weights


@shown_at("matmul", "mv", "mm")
def softmax_missing(query, keys, values):
    """The raw dot products are used as weights.

    Ask: what do the weights of one query have to sum to?
    """
    scores = keys @ query
    return scores @ values, scores


@shown_at("softmax")
def values_mixed_by_keys(query, keys, values):
    """The keys are mixed, not the values.

    Ask: which of the three tensors carries the content, and which one is only there to be found?
    """
    weights = torch.softmax(keys @ query, dim=-1)
    return weights @ keys, weights


@shown_at("mean", "softmax")
def mean_of_values(query, keys, values):
    """Every key gets the same weight, whatever the query is.

    Ask: does your output change when the query does?
    """
    weights = torch.full((len(keys),), 1 / len(keys))
    return weights @ values, weights


@shown_at("softmax")
def scale_applied(query, keys, values):
    """The dot products are scaled: that comes in the next lesson; here they are taken as they are.

    Ask: which line changes the scores before the softmax?
    """
    weights = torch.softmax(keys @ query / len(query) ** 0.5, dim=-1)
    return weights @ values, weights


def outputs_swapped(query, keys, values):
    """The two results come in the other order: the output first, then the weights.

    Ask: what is the length of the first thing that you return, d_v or T?
    """
    output, weights = soft_lookup(query, keys, values)
    return weights, output


_MAKE = torch.Generator().manual_seed(1)


def _given(t, d, d_v, factor=1.0):
    query, keys, values = (torch.randn(*size, generator=_MAKE) for size in ((d,), (t, d), (t, d_v)))
    return Given(query * factor, keys, values)


PARTS = (
    Computes(
        "soft_lookup",
        soft_lookup,
        [_given(3, 2, 2), _given(4, 3, 5), _given(5, 5, 5), _given(4, 3, 3, 60.0)],
        [
            softmax_not_exponential,
            hardest_key_only,
            softmax_missing,
            values_mixed_by_keys,
            mean_of_values,
            scale_applied,
            outputs_swapped,
        ],
    ),
)
