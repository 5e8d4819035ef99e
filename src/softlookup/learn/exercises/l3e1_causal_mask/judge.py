"""A causal mask.

Goal: Write `make_causal_allowed_mask(seq_len)`: a boolean mask of shape (1, 1, T, T) in which True means that
this query (row) may look at this key (column): itself and everything before it.

Checks: Shape, dtype and every entry, for lengths 1 to 6.

Ask: The first query comes first in the text: which keys may it look at, and how many may the last one?

Hint: Draw it for T = 3 on paper: one row for each query, one column for each key.

Hint: `torch.tril` keeps the lower triangle of a matrix, with the diagonal.

Hint: Start from `torch.ones(seq_len, seq_len, dtype=torch.bool)`; `[None, None]` in front of a matrix adds
two axes of size one.
"""

import torch

from softlookup.learn.mistakes import shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Computes
from softlookup.masks.builders import make_causal_allowed_mask

KIND = "write"
AS_GIVEN = "not-written"


def _ones(seq_len):
    return torch.ones(seq_len, seq_len, dtype=torch.bool)


@shown_at("triu", "tril")
def future_visible(seq_len):
    """Every query sees the keys after it, and not those before.

    Ask: which triangle has the keys that come later: the one above the diagonal or the one below?
    """
    return _ones(seq_len).triu()[None, None]


@shown_at("triu", "tril")
def mask_polarity_inverted(seq_len):
    """True and False have changed places: here True means that the key may be looked at.

    Ask: read the name of the function aloud: what should True say?
    """
    return _ones(seq_len).triu(1)[None, None]


@shown_at("triu", "tril")
def self_hidden(seq_len):
    """A query does not see its own key: the first one may look nowhere at all.

    Ask: what would the softmax of the first row be?
    """
    return _ones(seq_len).tril(-1)[None, None]


@shown_at("triu", "tril")
def causal_off_by_one(seq_len):
    """Every query also sees the key right after its own.

    Ask: predicting the next token, what does that one key give away?
    """
    return _ones(seq_len).tril(1)[None, None]


@shown_at("ones", "tril")
def nothing_hidden(seq_len):
    """All keys are allowed.

    Ask: which entries does your mask hide?
    """
    return _ones(seq_len)[None, None]


@shown_at("tril", "ones")
def leading_axes_missing(seq_len):
    """The matrix is right, but the two leading axes for batch and heads are missing.

    Ask: scores have the shape (B, H, T_q, T_k): how can one mask serve all samples and heads?
    """
    return _ones(seq_len).tril()


@shown_at("tril", "ones")
def one_leading_axis(seq_len):
    """The matrix is right, but there is one leading axis and not two.

    Ask: scores have the shape (B, H, T_q, T_k): against which of these axes would your first one stand?
    """
    return _ones(seq_len).tril()[None]


@shown_at("masked_fill", "triu", "tril", "full")
def additive_in_place_of_bool(seq_len):
    """These are numbers to add to scores; a boolean mask is asked for.

    Ask: what does `~` do to your mask, and what to a boolean one?
    """
    return torch.zeros(seq_len, seq_len).masked_fill(~_ones(seq_len).tril(), float("-inf"))[None, None]


@shown_at("tril", "ones")
def numbers_in_place_of_bool(seq_len):
    """The pattern is right, but it holds numbers and not booleans.

    Ask: what would `masked_fill` or `~` do with numbers?
    """
    return torch.ones(seq_len, seq_len).tril()[None, None]


PARTS = (
    Computes(
        "make_causal_allowed_mask",
        make_causal_allowed_mask,
        [Given(t) for t in (3, 1, 2, 4, 5, 6)],
        [
            future_visible,
            mask_polarity_inverted,
            self_hidden,
            causal_off_by_one,
            nothing_hidden,
            leading_axes_missing,
            one_leading_axis,
            additive_in_place_of_bool,
            numbers_in_place_of_bool,
        ],
    ),
)
