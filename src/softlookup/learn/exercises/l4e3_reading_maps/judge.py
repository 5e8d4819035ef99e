"""Read a map.

Goal: Write three facts as code, each returns True or False: `rows_sum_to_one(weights)`,
`future_is_zero(weights)` and `padding_is_zero(weights, real)`, for maps (..., T, T) with a row for each
query and a column for each key.

Checks: Each fact on maps in which it holds and on maps in which it barely does not: one row of many, a sum
that is right by chance, a trace of weight.

Ask: Which axis is that of the keys: what gets added up along it, and what does one column stand for?

Hint: Draw a map for T = 3 with numbers: mark what one query hands out, mark what is ahead, and mark one
padded key.

Hint: Each fact first makes a tensor of many booleans, and then one out of them. Does it hold when all of
these are true, or when any is?

Hint: `weights.sum(dim=...)`, `weights.triu(...)` and `weights[..., ...]` pick what each fact speaks of. A
sum is compared with a tolerance, a hidden weight is compared with 0.
"""

import torch

from softlookup.learn.exercises.l4e3_reading_maps.maps import FOR_FUTURE, FOR_PADDING, FOR_ROWS
from softlookup.learn.mistakes import shown_at
from softlookup.learn.parts import Computes

KIND = "write"
AS_GIVEN = "not-written"

_SUMS = ("sum", "allclose", "isclose", "einsum", "mean")
_CLOSE = 1e-5


def _ones(sums, tolerance=_CLOSE):
    return (sums - 1).abs() <= tolerance


def rows_sum_to_one(weights):
    return bool(_ones(weights.sum(-1)).all())


@shown_at(*_SUMS)
def columns_summed(weights):
    """Columns are added up: what a key gets from all queries may be any number.

    Ask: Who hands out one unit of attention, a query or a key?
    """
    return bool(_ones(weights.sum(-2)).all())


@shown_at(*_SUMS)
def everything_summed(weights):
    """Only the sum of the whole map is looked at, or the mean of its rows.

    Ask: One row sums to 1.5 and another to 0.5: what does your function say?
    """
    return bool(_ones(weights.sum(-1).mean()))


@shown_at("any", "sum")
def one_row_is_enough(weights):
    """It is True as soon as a single row sums to one.

    Ask: One row of a map is broken, three are not: what should the answer be?
    """
    return bool(_ones(weights.sum(-1)).any())


@shown_at("__eq__", "eq", "equal", "sum")
def no_tolerance(weights):
    """The sums are compared exactly, but sums of float numbers are rounded.

    Ask: What does Python say to `0.1 + 0.2 == 0.3`?
    """
    return bool((weights.sum(-1) == 1).all())


@shown_at(*_SUMS)
def too_much_tolerance(weights):
    """Rows that miss one by a percent or more still pass.

    Ask: How large are rounding errors of numbers between 0 and 1, and how large is a lost key?
    """
    return bool(_ones(weights.sum(-1), 1e-2).all())


@shown_at("round", "sum")
def sums_rounded(weights):
    """The sums are rounded to whole numbers first: 0.6 passes as well.

    Ask: Which sums become 1 when they are rounded?
    """
    return bool((weights.sum(-1).round() == 1).all())


@shown_at(*_SUMS, "__le__", "le")
def only_too_much_seen(weights):
    """Only sums above one are refused; sums below pass.

    Ask: What becomes of a row when a key is zeroed after the softmax?
    """
    return bool((weights.sum(-1) <= 1 + _CLOSE).all())


@shown_at("getitem", "select", "sum")
def first_map_only(weights):
    """Only the first map is looked at, where several were given.

    Ask: How many heads does a tensor (B, H, T, T) hold?
    """
    return rows_sum_to_one(_first(weights))


def future_is_zero(weights):
    return bool((weights.triu(1) == 0).all())


@shown_at("tril")
def past_looked_at(weights):
    """It is the past that is looked at: the lower triangle.

    Ask: Row 0 is the first query: in which columns does its future lie?
    """
    return bool((weights.tril(-1) == 0).all())


@shown_at("triu")
def own_key_counts_as_future(weights):
    """The diagonal counts as future, but there a query looks at its own key.

    Ask: May the first query look anywhere, by your rule?
    """
    return bool((weights.triu() == 0).all())


@shown_at("triu")
def next_key_allowed(weights):
    """The key right after a query is let through.

    Ask: Which key gives away the token that is to be predicted?
    """
    return bool((weights.triu(2) == 0).all())


@shown_at("allclose", "isclose", "__lt__", "lt", "__le__", "le", "sum")
def traces_pass(weights):
    """A trace of weight on the future passes: it should be exactly 0.

    Ask: Which number does the softmax give for a score of -inf, and which for one of -20?
    """
    return bool((weights.triu(1).abs() < 1e-5).all())


@shown_at("getitem", "select", "triu")
def future_of_first_map_only(weights):
    """Only the first map is looked at, where several were given.

    Ask: How many heads does a tensor (B, H, T, T) hold?
    """
    return future_is_zero(_first(weights))


@shown_at("any", "triu")
def one_zero_is_enough(weights):
    """One hidden weight that is 0 is enough here.

    Ask: How many of the weights on the future must be 0?
    """
    ahead = torch.ones(weights.shape[-2:]).triu(1).bool()
    return bool((weights[..., ahead] == 0).any())


def padding_is_zero(weights, real):
    return bool((weights[..., ~real] == 0).all())


@shown_at("getitem")
def rows_of_padding(weights, real):
    """The rows of padded queries are looked at: padding is hidden as a key, its own row is of no interest.

    Ask: Who must not be looked at, and is that a row or a column?
    """
    return bool((weights[..., ~real, :] == 0).all())


@shown_at("getitem", "masked_select", "masked_fill")
def real_keys_looked_at(weights, real):
    """The columns of the real tokens are looked at.

    Ask: What does True say in `real`?
    """
    return bool((weights[..., real] == 0).all())


@shown_at("getitem")
def rows_of_padding_ignored(weights, real):
    """Only the rows of real queries are looked at; every row must leave out the padded keys.

    Ask: Which rows does a padding mask of shape (B, 1, 1, T_k) reach?
    """
    return bool((weights[..., real, :][..., ~real] == 0).all())


@shown_at("allclose", "isclose", "__lt__", "lt", "__le__", "le", "sum")
def traces_on_padding_pass(weights, real):
    """A trace of weight on padding passes: it should be exactly 0.

    Ask: Which number does the softmax give for a score of -inf, and which for one of -20?
    """
    return bool((weights[..., ~real].abs() < 1e-5).all())


@shown_at("any", "getitem")
def one_padded_key_is_enough(weights, real):
    """One weight of 0 on padding is enough here; without padding it is even False.

    Ask: What should be said of a map in which nothing is padding?
    """
    return bool((weights[..., ~real] == 0).any())


@shown_at("getitem")
def last_key_only(weights, real):
    """Only the last column is looked at.

    Ask: Where may padding stand, and how many keys of it?
    """
    return bool(real[-1]) or bool((weights[..., -1] == 0).all())


@shown_at("getitem", "select")
def padding_of_first_map_only(weights, real):
    """Only the first map is looked at, where several were given.

    Ask: How many heads does a tensor (B, H, T, T) hold?
    """
    return padding_is_zero(_first(weights), real)


def _first(weights):
    return weights.flatten(0, -3)[0] if weights.dim() > 2 else weights


PARTS = (
    Computes(
        "rows_sum_to_one",
        rows_sum_to_one,
        FOR_ROWS,
        [
            columns_summed,
            everything_summed,
            one_row_is_enough,
            sums_rounded,
            only_too_much_seen,
            no_tolerance,
            too_much_tolerance,
            first_map_only,
        ],
    ),
    Computes(
        "future_is_zero",
        future_is_zero,
        FOR_FUTURE,
        [
            past_looked_at,
            own_key_counts_as_future,
            next_key_allowed,
            traces_pass,
            one_zero_is_enough,
            future_of_first_map_only,
        ],
    ),
    Computes(
        "padding_is_zero",
        padding_is_zero,
        FOR_PADDING,
        [
            rows_of_padding,
            real_keys_looked_at,
            rows_of_padding_ignored,
            one_padded_key_is_enough,
            last_key_only,
            traces_on_padding_pass,
            padding_of_first_map_only,
        ],
    ),
)
