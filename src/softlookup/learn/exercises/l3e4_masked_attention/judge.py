"""Attention with a mask.

Goal: Write `masked_attention(q, k, v, allowed_mask=None)`: attention in which a hidden key has a weight of
exactly 0 and every row still sums to one. Return the output and the weights; a mask that leaves a query
without any key raises a ValueError.

Checks: That it is attention without a finding: masks of every broadcastable shape, large scores, float16,
rows that may look nowhere, the caller's tensors left alone; then the ValueError and a call without a mask.

Ask: What do the weights of a row sum to after your mask, and what is the weight of a hidden key to the last
digit?

Hint: Take 2.3 and put one line between the scores and the softmax.

Hint: `scores.masked_fill(where, value)` returns scores with the value wherever `where` is True. Where
should that be, and which value has the exponential 0?

Hint: The mask says which keys are allowed, so the others are `~allowed_mask`; `allowed_mask.any(dim=-1)`
says for each row whether anything is left.
"""

import math

import torch

from softlookup.learn.mistakes import Fault, shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Attends, Behaves, Computes
from softlookup.terms import Contract

KIND = "write"
AS_GIVEN = "not-written"

_ON_THE_LINE = ("masked_fill", "where", "add", "softmax")


def _attend(q, k, v, allowed_mask):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


def masked_attention(q, k, v, allowed_mask=None):
    if allowed_mask is not None and not allowed_mask.any(-1).all():
        raise ValueError
    return _attend(q, k, v, allowed_mask)


@shown_at(*_ON_THE_LINE)
def empty_row_zeroed(q, k, v, allowed_mask=None):
    """A row without any key becomes zeros in silence: an error is promised here.

    Ask: How would somebody notice who built the mask the wrong way round?
    """
    output, weights = _attend(q, k, v, allowed_mask)
    return output.nan_to_num(), weights.nan_to_num()


def assertion_in_place_of_error(q, k, v, allowed_mask=None):
    """An assertion is for what can never be; `python -O` leaves it out. Wrong input deserves a ValueError.

    Ask: Who reads your message: you, or the one who called the function?
    """
    if allowed_mask is not None and not allowed_mask.any(-1).all():
        raise AssertionError
    return _attend(q, k, v, allowed_mask)


def _right_input_refused(outcomes):
    """Return the fault of a call that stops: the first has no mask, the second one that hides padding."""
    without, padded = outcomes
    if without.error:
        words = f"Without a mask it stops ({without.error}): then every key may be looked at."
        return Fault("mask-demanded", words, "What is `allowed_mask` when nobody gives one?")
    if padded.error in {"ValueError", "AssertionError"}:
        words = "A mask that hides padding is refused, though every query has a key to look at."
        question = "Which is bad: a key that nobody looks at, or a query that looks at nothing?"
        return Fault("plain-padding-refused", words, question)
    if padded.error:
        words = f"With a mask it stops: {padded.error}: {padded.message}"
        return Fault("raises", words, "Which shapes and dtypes meet on that line?")
    return None


_MAKE = torch.Generator().manual_seed(8)


def _given(allowed_mask, *leading):
    t = 3 if allowed_mask is None else allowed_mask.size(-1)
    return Given(*(torch.randn(*leading, t, 4, generator=_MAKE) for _ in range(3)), allowed_mask)


_CAUSAL = torch.ones(3, 3, dtype=torch.bool).tril()
_PADDED = torch.tensor([[True, True, False], [True, True, True]])[:, None, None]
_EMPTY_ROW = torch.tensor([[True, False, False], [False, False, False], [True, True, True]])

PARTS = (
    Behaves(
        "masked_attention",
        [_given(None, 1, 2), _given(_PADDED, 2, 2)],
        _right_input_refused,
        "masked_attention runs without a mask, and with one",
    ),
    Attends(
        "masked_attention",
        Contract(
            layout="B H T d", mask="allowed", causal="none", returns="output, weights", empty_rows="raises"
        ),
        questions={
            "mask-inverted": "Read your line aloud: is a score replaced where it is allowed or where not?",
            "mask-added-as-number": "What does adding 1 to a score do to its key, and what does adding 0 do?",
            "mask-multiplies-scores": "What is the exponential of 0, beside that of a negative score?",
            "mask-ignored": "Does the line change scores, or does it make new ones? Where do these go?",
            "empty-row-nan": "What is the softmax of a row in which every score is -inf?",
            "empty-row-uniform": "What is the softmax of a row in which all scores are equal?",
            "caller-mask-changed": "Whose tensor is written into, and what will its owner find in it?",
        },
    ),
    Computes(
        "masked_attention",
        masked_attention,
        [
            _given(_CAUSAL, 1, 1),
            _given(_CAUSAL & _PADDED, 2, 2),
            _given(None, 1, 2),
            _given(_EMPTY_ROW, 1, 1),
            _given(_PADDED & ~_PADDED[1:], 2, 1),
        ],
        [
            empty_row_zeroed,
            assertion_in_place_of_error,
        ],
    ),
)
