"""Take one source away.

Goal: Write `output_without(scores, values, source)`: the lookup as if one key and its value were not there;
and `effect_of(scores, values, source)`: how far the output of each query moves by that.

Checks: All outputs on several sizes, with hidden keys among them, and with a key that had all the weight;
the ValueError where a query has nothing left; that the scores are still there for the comparison.

Ask: When one of four keys is taken away, what do the weights of the other three sum to?

Hint: There are two moments at which a key can be taken out: before and after the softmax. Try both on paper
with the weights 1/2, 1/4, 1/4.

Hint: You know from lesson 3 how a key is hidden so that the softmax gives it exactly 0 and the others share
one unit.

Hint: Work on a copy of the scores (`clone`), or cut out the column and the value (`cat`): a tensor that is
changed in place is changed for everyone who holds it.
"""

import torch

from softlookup.learn.mistakes import shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Computes

KIND = "write"
AS_GIVEN = "not-written"

_INF = float("inf")


def attend(scores, values):
    return torch.softmax(scores, dim=-1) @ values


def output_without(scores, values, source):
    left = scores.clone()
    left[:, source] = -_INF
    if (left == -_INF).all(dim=-1).any():
        raise ValueError("a query has nothing left to look at")
    return attend(left, values)


@shown_at("setitem", "mul", "masked_fill", "index_fill", "add")
def zeroed_after_softmax(scores, values, source):
    """The share of the source is dropped after the softmax, or its value is zero: the others do not get it.

    Ask: What do the weights that are left sum to, and what would they sum to without the source?
    """
    output_without(scores, values, source)
    weights = torch.softmax(scores, dim=-1)
    weights[:, source] = 0
    return weights @ values


@shown_at("div", "truediv", "softmax", "sum", "normalize")
def divided_by_what_is_left(scores, values, source):
    """The weights that are left are divided by their sum: where the source had all the weight, that is 0 / 0.

    Ask: What is left to divide by when one weight is 1 and all others have been rounded to 0?
    """
    output_without(scores, values, source)
    weights = torch.softmax(scores, dim=-1)
    weights[:, source] = 0
    return weights / weights.sum(-1, keepdim=True) @ values


@shown_at("setitem", "mul", "masked_fill", "index_fill")
def score_zeroed(scores, values, source):
    """The score becomes 0, and a score of 0 is one like any other.

    Ask: Which weight does the softmax give to a score of 0?
    """
    output_without(scores, values, source)
    left = scores.clone()
    left[:, source] = 0
    return attend(left, values)


@shown_at("setitem", "masked_fill", "index_fill")
def query_taken_away(scores, values, source):
    """A row is hidden, not a column: it is a query that was taken away.

    Ask: Which axis of the scores belongs to the sources?
    """
    left = scores.clone()
    left[source % len(scores)] = 0
    return attend(left, values)


@shown_at("setitem", "masked_fill", "index_fill")
def nothing_taken_away(scores, values, source):
    """The output is the same as with the source.

    Ask: Does your function use `source` at all, and is its result used?
    """
    output_without(scores, values, source)
    return attend(scores, values)


@shown_at("softmax")
def softmax_over_queries(scores, values, source):
    """The softmax runs over the queries.

    Ask: What do the weights of one query sum to?
    """
    output_without(scores, values, source)
    left = scores.clone()
    left[:, source] = -_INF
    return torch.softmax(left, dim=0).nan_to_num(0.0) @ values


@shown_at("setitem", "masked_fill", "index_fill", "getitem", "cat")
def only_source_left(scores, values, source):
    """Everything but the source is taken away.

    Ask: Which positions does your mask hide, and which one should it hide?
    """
    output_without(scores, values, source)
    return values[source].expand(len(scores), -1)


@shown_at("cat", "getitem")
def value_left_behind(scores, values, source):
    """The key was taken out, but from then on each weight meets the value of a neighbour.

    Ask: Which value belongs to the first weight after the gap?
    """
    output_without(scores, values, source)
    keys = [i for i in range(len(values)) if i != source]
    return attend(scores[:, keys], values[:-1])


@shown_at("setitem", "masked_fill", "index_fill")
def empty_row_nan(scores, values, source):
    """A query that has nothing left gets NaN, and nobody is told.

    Ask: What does the softmax of a row make of only -inf?
    """
    left = scores.clone()
    left[:, source] = -_INF
    return attend(left, values)


def effect_of(scores, values, source):
    return (attend(scores, values) - output_without(scores, values, source)).norm(dim=-1)


@shown_at("setitem", "masked_fill_", "index_fill_", "sub", "norm")
def compared_with_itself(scores, values, source):
    """The difference is 0 everywhere: both outputs come from the same scores.

    Ask: Are the scores still as they were when the second output is computed?
    """
    return effect_of(scores, values, source) * 0


@shown_at("norm", "sum", "mean", "dist")
def one_number_for_all(scores, values, source):
    """One length over all queries comes out; each query has its own.

    Ask: Over which axis should the length be taken?
    """
    return effect_of(scores, values, source).square().sum().sqrt()


@shown_at("norm", "sum", "mean")
def length_over_queries(scores, values, source):
    """The length is taken over the queries: one number for each feature came out.

    Ask: How many numbers should there be, T_q or d_v?
    """
    return (attend(scores, values) - output_without(scores, values, source)).norm(dim=0)


@shown_at("sum", "square", "pow")
def length_squared(scores, values, source):
    """The squares are added up, but the root is missing.

    Ask: Which power of the unit of the values should a length have?
    """
    return effect_of(scores, values, source).square()


@shown_at("abs", "sum", "norm")
def sum_of_absolutes(scores, values, source):
    """The absolute differences are added up: that is another length than the Euclidean one.

    Ask: How long is the way from (0, 0) to (3, 4)?
    """
    return (attend(scores, values) - output_without(scores, values, source)).abs().sum(dim=-1)


@shown_at("abs", "mean")
def mean_of_absolutes(scores, values, source):
    """The mean of the absolute differences is taken: that is no length.

    Ask: How long is the way from (0, 0) to (3, 4)?
    """
    return (attend(scores, values) - output_without(scores, values, source)).abs().mean(dim=-1)


@shown_at("norm", "sub")
def lengths_subtracted(scores, values, source):
    """The lengths of the two outputs are compared: an output that only turned seems not to have moved.

    Ask: How far apart are (3, 4) and (4, 3)?
    """
    before, after = attend(scores, values), output_without(scores, values, source)
    return before.norm(dim=-1) - after.norm(dim=-1)


@shown_at("softmax", "getitem", "select")
def weight_in_place_of_effect(scores, values, source):
    """This is the weight of the source: it says where a query looked, not what its output needed.

    Ask: Two sources carry the same value: what changes when one of them is taken away?
    """
    output_without(scores, values, source)
    return torch.softmax(scores, dim=-1)[:, source]


_MAKE = torch.Generator().manual_seed(4)


def _given(t_q, t_k, d_v, source, hidden=(), factor=1.0):
    scores = torch.randn(t_q, t_k, generator=_MAKE) * factor
    values = torch.randn(t_k, d_v, generator=_MAKE)
    for place in hidden:
        scores[place] = -_INF
    return Given(scores, values, source)


_INPUTS = (
    _given(2, 3, 2, 1),
    _given(3, 3, 2, 0),
    _given(2, 4, 3, 3, [(0, 2), (1, 0)]),
    _given(4, 5, 3, 2, [(slice(None), 4)], factor=3.0),
    Given(torch.tensor([[300.0, 0, 1]]), torch.tensor([[1.0, 2], [3, 4], [5, 7]]), 0),
    _given(3, 3, 2, 0, [(0, 1), (0, 2), (1, 2)]),
)

PARTS = (
    Computes(
        "output_without",
        output_without,
        _INPUTS,
        [
            nothing_taken_away,
            zeroed_after_softmax,
            divided_by_what_is_left,
            score_zeroed,
            query_taken_away,
            softmax_over_queries,
            only_source_left,
            value_left_behind,
            empty_row_nan,
        ],
    ),
    Computes(
        "effect_of",
        effect_of,
        _INPUTS,
        [
            compared_with_itself,
            one_number_for_all,
            length_over_queries,
            length_squared,
            sum_of_absolutes,
            mean_of_absolutes,
            lengths_subtracted,
            weight_in_place_of_effect,
        ],
    ),
)
