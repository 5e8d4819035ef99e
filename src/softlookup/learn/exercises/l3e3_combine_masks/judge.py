"""Two masks, and a row that may look nowhere.

Goal: Write `make_decoder_mask(token_ids, pad_id=0)`: boolean (B, 1, T, T), True where a key is a real token
and not later than the query. When a query is left without any key, raise a ValueError that says which: the
numbers of its sample and query.

Checks: Every entry; the error for a sample of nothing but padding and for padding on the left, and its
message.

Ask: Which rows of your mask have no True in them, and in which batches can that be?

Hint: Build the two masks of 3.1 and 3.2, of shape (1, 1, T, T) and (B, 1, 1, T): they broadcast to (B, 1,
T, T).

Hint: A key has to pass both rules: that is `&`. `mask.any(dim=-1)` says for every row whether anything is
left.

Hint: `(~mask.any(dim=-1)).nonzero()` lists the empty rows with their indices: put those of the first one
into the message.
"""

import re

import torch

from softlookup.learn.mistakes import Fault, shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Behaves, Computes

KIND = "write"
AS_GIVEN = "not-written"

_COMBINING = ("and", "logical_and", "bitwise_and", "or", "logical_or", "bitwise_or", "add", "mul")
_CHECKING = ("any", "all", "sum", *_COMBINING)
_SHAPING = ("__getitem__", "getitem", "unsqueeze", "view", "reshape")


def _causal(token_ids):
    t = token_ids.size(1)
    return torch.ones(t, t, dtype=torch.bool).tril()[None, None]


def _real(token_ids, pad_id):
    return (token_ids != pad_id)[:, None, None]


def _refusing_empty_rows(allowed):
    if not allowed.any(-1).all():
        raise ValueError
    return allowed


def make_decoder_mask(token_ids, pad_id=0):
    return _refusing_empty_rows(_causal(token_ids) & _real(token_ids, pad_id))


@shown_at(*_COMBINING)
def one_rule_is_enough(token_ids, pad_id=0):
    """A key is allowed when one of the two rules allows it.

    Ask: May a query look at a later key only because that is no padding?
    """
    return _causal(token_ids) | _real(token_ids, pad_id)


@shown_at(*_CHECKING)
def empty_row_let_through(token_ids, pad_id=0):
    """A row without any key is let through.

    Ask: What is the softmax of a row in which every score is -inf?
    """
    return _causal(token_ids) & _real(token_ids, pad_id)


@shown_at(*_CHECKING)
def only_whole_samples_checked(token_ids, pad_id=0):
    """Only samples that are nothing but padding are refused; a single empty row is let through.

    Ask: With padding on the left, what may the very first query look at?
    """
    if not (token_ids != pad_id).any(-1).all():
        raise ValueError
    return empty_row_let_through(token_ids, pad_id)


@shown_at(*_CHECKING)
def plain_padding_refused(token_ids, pad_id=0):
    """A batch with a few padded keys at the end is refused, though every query has a key to look at.

    Ask: Which is bad, a key that nobody looks at or a query that looks at nothing, and which axis tells them?
    """
    allowed = empty_row_let_through(token_ids, pad_id)
    return _refusing_empty_rows(allowed.transpose(-2, -1)).transpose(-2, -1)


@shown_at(*_CHECKING)
def only_all_false_checked(token_ids, pad_id=0):
    """It is refused only when nothing at all is allowed in the whole batch.

    Ask: What does `any()` without an axis say about one single row?
    """
    allowed = empty_row_let_through(token_ids, pad_id)
    if not allowed.any():
        raise ValueError
    return allowed


@shown_at("tril", "ones")
def padding_missing(token_ids, pad_id=0):
    """Padding is looked at: only the causal rule is there.

    Ask: Does your mask depend on the token ids?
    """
    return _causal(token_ids).expand(len(token_ids), -1, -1, -1)


@shown_at("ne", "eq")
def causal_missing(token_ids, pad_id=0):
    """Later keys are looked at: only the padding is hidden.

    Ask: What does row 0 of your mask say about the last key?
    """
    return _refusing_empty_rows(_real(token_ids, pad_id).expand(-1, -1, token_ids.size(1), -1))


@shown_at("triu", "tril")
def future_visible(token_ids, pad_id=0):
    """Every query sees the keys after it, and not those before.

    Ask: Which triangle has the keys that come later: the one above the diagonal or the one below?
    """
    return _refusing_empty_rows(_causal(token_ids).transpose(-2, -1) & _real(token_ids, pad_id))


@shown_at(*_SHAPING)
def mask_hides_queries(token_ids, pad_id=0):
    """The padding lies along the queries: padded rows are hidden, and padded keys are not.

    Ask: In (B, 1, T_q, T_k), on which axis stands the one who is looked at?
    """
    return _causal(token_ids) & _real(token_ids, pad_id).transpose(-2, -1)


@shown_at("invert", "logical_not", *_COMBINING)
def mask_polarity_inverted(token_ids, pad_id=0):
    """True and False have changed places: here True means that the key may be looked at.

    Ask: What should True say, and what does it say in your last line?
    """
    return ~make_decoder_mask(token_ids, pad_id)


@shown_at("ne", "eq")
def pad_id_ignored(token_ids, pad_id=0):
    """The padding token is taken for 0, whatever the caller says.

    Ask: What does your mask say when pad_id is 1?
    """
    return make_decoder_mask(token_ids)


@shown_at(*_SHAPING)
def head_axis_missing(token_ids, pad_id=0):
    """The pattern is right, but the axis for the heads is missing.

    Ask: Which shapes have the scores, and against which of their axes would your first one stand?
    """
    return make_decoder_mask(token_ids, pad_id)[:, 0]


@shown_at("diagonal", "eye", "where", *_CHECKING)
def empty_row_sees_itself(token_ids, pad_id=0):
    """A row that is left without keys gets its own key back, which is padding.

    Ask: Who learns of it when a sample is nothing but padding?
    """
    allowed = empty_row_let_through(token_ids, pad_id)
    own = torch.eye(token_ids.size(1), dtype=torch.bool)
    return allowed | (own & ~allowed.any(-1, keepdim=True))


def assertion_in_place_of_error(token_ids, pad_id=0):
    """An assertion is for what can never be; `python -O` leaves it out. Wrong input deserves a ValueError.

    Ask: Who reads your message: you, or the one who called the function?
    """
    allowed = empty_row_let_through(token_ids, pad_id)
    if not allowed.any(-1).all():
        raise AssertionError
    return allowed


_BATCHES = (
    ([[12, 91, 0], [44, 17, 29]], 0),
    ([[12, 91, 33, 0, 0], [44, 17, 29, 81, 5]], 0),
    ([[7, 8, 9], [0, 0, 0]], 0),
    ([[5, 6, 7, 8], [0, 0, 7, 8]], 0),
    ([[3, 4, 0, 1], [2, 1, 1, 1]], 1),
    ([[0, 0]], 0),
)
#: Batches with an empty row -> the numbers of its sample and its query, which the message has to say.
_EMPTY = (([[7, 8, 9], [6, 5, 0], [0, 0, 0]], "2", "0"), ([[0, 7], [5, 6]], "0", "0"))


def _says_where(outcomes):
    """Return the fault of a message without the numbers of sample and query."""
    for (_, *places), outcome in zip(_EMPTY, outcomes, strict=True):
        numbers = re.findall(r"\d+", outcome.message)
        if any(numbers.count(place) < places.count(place) for place in places):
            words = f"The message does not say which row it is: {outcome.message[:80] or '(nothing)'!r}."
            return Fault("message-without-place", words, "Where would one look for it among 64 samples?")
    return None


PARTS = (
    Computes(
        "make_decoder_mask",
        make_decoder_mask,
        [Given(torch.tensor(ids), pad_id) for ids, pad_id in _BATCHES],
        [
            one_rule_is_enough,
            empty_row_let_through,
            only_whole_samples_checked,
            only_all_false_checked,
            plain_padding_refused,
            padding_missing,
            causal_missing,
            future_visible,
            mask_hides_queries,
            mask_polarity_inverted,
            pad_id_ignored,
            head_axis_missing,
            empty_row_sees_itself,
            assertion_in_place_of_error,
        ],
    ),
    Behaves(
        "make_decoder_mask",
        [Given(torch.tensor(ids)) for ids, *_ in _EMPTY],
        _says_where,
        "the error says which row may look nowhere",
    ),
)
