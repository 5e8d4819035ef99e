"""Four numbers to watch.

Goal: Write `largest_score(scores, allowed_mask)`, `hidden_share(scores, allowed_mask)`,
`row_sum_error(weights)` and `largest_forbidden(weights, allowed_mask)`, each of which returns one float.

Checks: Each of them on tensors of several shapes, with masks that have fewer axes than the scores or axes of
size one, with the worst case far from the first entry, and where nothing is hidden.

Ask: For each of the four: over which entries is it taken, and is it the largest, the mean, or the first?

Hint: `tensor.item()` makes a float of a tensor with one number; `abs()` comes before `max()` when both signs
count.

Hint: A mask (T_q, T_k) holds for every sample and head. `mask.expand_as(scores)` shows it in full size, so
that entries can be counted.

Hint: To leave entries out of a maximum, put a number there that can never be the largest. Which number is
that for |score|, and which for a weight?
"""

import torch

from softlookup.learn.mistakes import shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Computes

KIND = "write"
AS_GIVEN = "not-written"


def largest_score(scores, allowed_mask):
    return scores.abs().masked_fill(~allowed_mask, 0.0).max().item()


@shown_at("max", "amax")
def hidden_scores_counted(scores, allowed_mask):
    """Hidden scores count as well: a large one that nobody uses raises an alarm.

    Ask: What becomes of a hidden score before the softmax?
    """
    return scores.abs().max().item()


@shown_at("max", "amax")
def sign_kept(scores, allowed_mask):
    """Scores far below zero are not seen.

    Ask: Which of the scores 3 and -50 tells you that queries and keys have grown?
    """
    return scores.masked_fill(~allowed_mask, -torch.inf).max().clamp(min=0).item()


@shown_at("max", "amax", "abs")
def infinity_of_hidden(scores, allowed_mask):
    """Hidden scores were made -inf first, and so the largest |score| is infinite.

    Ask: How far from 0 is -inf?
    """
    return scores.masked_fill(~allowed_mask, -torch.inf).abs().max().item()


@shown_at("mean")
def scores_averaged(scores, allowed_mask):
    """This is a mean: one score that explodes among thousands hardly moves it.

    Ask: Does a softmax overflow at the mean of its scores, or at the largest?
    """
    return scores.abs()[allowed_mask.expand_as(scores)].mean().item()


@shown_at("getitem", "masked_fill", "masked_select", "where")
def hidden_scores_only(scores, allowed_mask):
    """It is the hidden scores that are looked at.

    Ask: What does True say in allowed_mask?
    """
    return largest_score(scores, ~allowed_mask)


def hidden_share(scores, allowed_mask):
    return (~allowed_mask).expand_as(scores).double().mean().item()


@shown_at("mean", "sum")
def allowed_share(scores, allowed_mask):
    """This is the share that is allowed.

    Ask: What does True say in allowed_mask?
    """
    return 1 - hidden_share(scores, allowed_mask)


@shown_at("sum", "count_nonzero")
def hidden_counted_in_small_mask(scores, allowed_mask):
    """The mask is counted in its own size, and the scores in theirs: the share comes out too small.

    Ask: Of how many scores does one entry of the mask (T_q, T_k) speak?
    """
    return (~allowed_mask).sum().item() / scores.numel()


@shown_at("eq", "isinf", "mean", "sum")
def zeros_counted(scores, allowed_mask):
    """It counts entries of the scores, but these come before the mask: nothing in them is hidden yet.

    Ask: Which of the two tensors knows what is hidden?
    """
    return (scores == 0).double().mean().item()


def row_sum_error(weights):
    return (weights.sum(-1) - 1).abs().max().item()


@shown_at("sum")
def columns_summed(weights):
    """Columns are summed: what a key gets from all queries may be any number.

    Ask: Who hands out one unit of attention: a query (row) or a key (column)?
    """
    return (weights.sum(-2) - 1).abs().max().item()


@shown_at("max", "amax", "sum")
def too_little_not_seen(weights):
    """Only rows with too much weight are seen; a row that lost some is the usual case.

    Ask: What becomes of a row when a key is zeroed after the softmax?
    """
    return (weights.sum(-1) - 1).max().item()


@shown_at("mean")
def errors_averaged(weights):
    """The errors are averaged: one bad row among thousands hardly moves it.

    Ask: One row of 4096 sums to 0.5: what does your number say?
    """
    return (weights.sum(-1) - 1).abs().mean().item()


@shown_at("mean", "sum")
def too_much_makes_up_for_too_little(weights):
    """Rows with too much make up for rows with too little.

    Ask: One row sums to 1.5 and another to 0.5: what does your number say?
    """
    return abs((weights.sum(-1) - 1).mean().item())


@shown_at("getitem", "sum")
def first_sample_only(weights):
    """Only the first sample is looked at.

    Ask: Which axes does a maximum run over, if the whole batch counts?
    """
    return row_sum_error(weights[:1])


def largest_forbidden(weights, allowed_mask):
    return weights.masked_fill(allowed_mask, 0.0).max().item()


@shown_at("masked_fill", "getitem", "where", "mul", "max")
def largest_allowed(weights, allowed_mask):
    """This is the largest weight of a key that may be looked at.

    Ask: What does True say in allowed_mask?
    """
    return weights.masked_fill(~allowed_mask, 0.0).max().item()


@shown_at("max", "amax")
def largest_of_all(weights, allowed_mask):
    """This is the largest weight of all, whether its key is hidden or not.

    Ask: Which entries speak of a key that should not be seen?
    """
    return weights.max().item()


@shown_at("sum", "mean")
def forbidden_summed(weights, allowed_mask):
    """The weights of hidden keys are added up; the largest is asked for.

    Ask: Does your number grow when the batch does?
    """
    return weights.masked_fill(allowed_mask, 0.0).sum().item()


@shown_at("triu")
def only_future_looked_at(weights, allowed_mask):
    """Only the future is looked at, whatever the mask says.

    Ask: Which keys does a padding mask hide, and do they lie above the diagonal?
    """
    return weights.triu(1).max().item()


def stops_where_nothing_is_hidden(weights, allowed_mask):
    """It stops where nothing is hidden: the largest of no numbers does not exist.

    Ask: What is promised where nothing is hidden?
    """
    if bool(allowed_mask.all()):
        raise RuntimeError
    return largest_forbidden(weights, allowed_mask)


_CAUSAL = torch.ones(3, 3, dtype=torch.bool).tril()
_PADDING = torch.tensor([[True, True, False], [True, True, True]])[:, None, None]
_IN_FRONT = torch.tensor([False, True, True])
_ALL = torch.ones(1, 1, 1, 1, dtype=torch.bool)
_MAKE = torch.Generator().manual_seed(74)
_SMALL = torch.tensor([[[[1.0, 4, -9], [2, -3, 0.5], [0.25, 1, 2]]]])
_BELOW = torch.tensor([[[[2.0, 5, 7], [1, -6, 0.5], [0.5, 1, 3]]]])
_SCORES = 3 * torch.randn(2, 2, 3, 3, generator=_MAKE)
_SCORES[1, 0, 0, 2] = 20.0  # hidden by the causal mask, and in the second sample


def _shares(scores, hidden, mask):
    return scores.masked_fill(~mask, hidden).softmax(-1)


_RIGHT = _shares(_SCORES, -torch.inf, _CAUSAL)
_LEAKING = _shares(_SCORES, -2.0, _CAUSAL & _PADDING)
_LESS, _MORE, _BOTH = _RIGHT.clone(), _RIGHT.clone(), _RIGHT.clone()
_LESS[1, 1, 2] *= 0.75
_MORE[1, 0, 1] *= 1.5
_BOTH[0, 1, 1] *= 1.25
_BOTH[1, 1, 2] *= 0.75
_ONE_MAP = torch.tensor([[[[0.5, 0.5, 0], [0.25, 0.5, 0.25], [0.5, 0.25, 0.125]]]])

PARTS = (
    Computes(
        "largest_score",
        largest_score,
        [
            Given(_SMALL, _CAUSAL),
            Given(_BELOW, _CAUSAL),
            Given(_SCORES, _CAUSAL),
            Given(_SCORES, _PADDING & _CAUSAL),
            Given(_SMALL, _ALL),
            Given(-_SMALL.abs(), _CAUSAL),
        ],
        [
            hidden_scores_counted,
            sign_kept,
            infinity_of_hidden,
            scores_averaged,
            hidden_scores_only,
        ],
    ),
    Computes(
        "hidden_share",
        hidden_share,
        [
            Given(_SMALL, _CAUSAL),
            Given(_SCORES, _CAUSAL),
            Given(_SCORES, _PADDING),
            Given(_SCORES, _PADDING & _CAUSAL),
            Given(_SCORES, _ALL),
        ],
        [allowed_share, hidden_counted_in_small_mask, zeros_counted],
    ),
    Computes(
        "row_sum_error",
        row_sum_error,
        [Given(_ONE_MAP), Given(_RIGHT), Given(_LESS), Given(_MORE), Given(_BOTH)],
        [
            columns_summed,
            too_little_not_seen,
            errors_averaged,
            too_much_makes_up_for_too_little,
            first_sample_only,
        ],
    ),
    Computes(
        "largest_forbidden",
        largest_forbidden,
        [
            Given(_ONE_MAP, _CAUSAL),
            Given(_RIGHT, _CAUSAL),
            Given(_LEAKING, _CAUSAL),
            Given(_LEAKING, _PADDING),
            Given(_LEAKING, _IN_FRONT),
            Given(_LEAKING, _CAUSAL & _PADDING),
            Given(_RIGHT, _ALL),
        ],
        [
            largest_allowed,
            largest_of_all,
            forbidden_summed,
            only_future_looked_at,
            stops_where_nothing_is_hidden,
        ],
    ),
)
