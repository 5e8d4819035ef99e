"""Scaled dot-product attention.

Goal: Write `scaled_dot_product_attention(q, k, v)`: scores, scale, softmax over the keys, mix of the values.
Return the output (..., T_q, d_v) and the weights (..., T_q, T_k), for any axes in front. Different d_k in q
and k, and different T_k in k and v, raise a ValueError.

Checks: That it is attention without a finding, on probes with a batch and heads; then the worked example,
other leading axes, and the two errors.

Ask: What is the shape after each of your lines, and which axis does each line sum over?

Hint: You have written all parts: 2.1 and 2.2 for the scores, 1.3 for softmax and mix.

Hint: Count axes from the back, `dim=-1` and `transpose(-2, -1)`: then it does not matter how many stand in
front.

Hint: The checks come first: compare `q.size(-1)` with `k.size(-1)`, and `k.size(-2)` with `v.size(-2)`, and
say both numbers in the message.
"""

import math

import torch

from softlookup.attention import scaled_dot_product_attention as library_attention
from softlookup.learn.mistakes import shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Attends, Computes
from softlookup.terms import Contract

KIND = "write"
AS_GIVEN = "not-written"


def scaled_dot_product_attention(q, k, v):
    if q.size(-1) != k.size(-1) or k.size(-2) != v.size(-2):
        raise ValueError
    return library_attention(q, k, v)


def _unchecked(q, k, v):
    weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
    return weights @ v, weights


def sizes_unchecked(q, k, v):
    """The sizes are not compared: torch stops somewhere inside, with words about matrices.

    Ask: What would a caller like to read who has mixed up two tensors?
    """
    return _unchecked(q, k, v)


def assertion_in_place_of_error(q, k, v):
    """An assertion is for what can never be; `python -O` leaves it out. Wrong input deserves a ValueError.

    Ask: Who reads your message: you, or the one who called the function?
    """
    if q.size(-1) != k.size(-1) or k.size(-2) != v.size(-2):
        raise AssertionError
    return library_attention(q, k, v)


def key_width_unchecked(q, k, v):
    """Queries and keys of different widths are not refused with a ValueError.

    Ask: Which sizes have to agree before a query can be compared with a key?
    """
    if k.size(-2) != v.size(-2):
        raise ValueError
    return _unchecked(q, k, v)


def value_count_unchecked(q, k, v):
    """Different numbers of keys and values are not refused with a ValueError.

    Ask: Which sizes have to agree before the weights can mix the values?
    """
    if q.size(-1) != k.size(-1):
        raise ValueError
    return _unchecked(q, k, v)


def equal_lengths_demanded(q, k, v):
    """There may be more or fewer queries than keys: that is no error.

    Ask: Which axis of the scores comes from the queries, and does it have to fit anything?
    """
    if q.size(-2) != k.size(-2):
        raise ValueError
    return scaled_dot_product_attention(q, k, v)


def equal_widths_demanded(q, k, v):
    """Values may be wider or narrower than keys: that is no error.

    Ask: Is there a step in which a value is compared with a key?
    """
    if k.size(-1) != v.size(-1):
        raise ValueError
    return scaled_dot_product_attention(q, k, v)


@shown_at("softmax", "transpose", "matmul", "einsum", "bmm")
def four_axes_demanded(q, k, v):
    """It works for a batch with heads, and not with fewer axes.

    Ask: Which numbers of axes do your lines count from the front?
    """
    found = scaled_dot_product_attention(q, k, v)
    if q.dim() != 4:
        raise Exception
    return found


def outputs_swapped(q, k, v):
    """The two results come in the other order: the output first, then the weights.

    Ask: What is the shape of the first thing that you return?
    """
    return scaled_dot_product_attention(q, k, v)[::-1]


def weights_missing(q, k, v):
    """Only the output comes back; the weights are asked for as well.

    Ask: How would a test see where a query looks?
    """
    return scaled_dot_product_attention(q, k, v)[0]


_MAKE = torch.Generator().manual_seed(6)


def _given(*leading, q, k, v):
    return Given(*(torch.randn(*leading, *size, generator=_MAKE) for size in (q, k, v)))


_EXAMPLE = Given(
    torch.tensor([[[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]]]),
    torch.tensor([[[1.0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]]]),
    torch.tensor([[[10.0, 0], [0, 10], [5, 5]]]),
)

PARTS = (
    Attends(
        "scaled_dot_product_attention",
        Contract(layout="B H T d", mask="none", causal="none", returns="output, weights"),
    ),
    Computes(
        "scaled_dot_product_attention",
        scaled_dot_product_attention,
        [
            _EXAMPLE,
            _given(q=(2, 3), k=(3, 3), v=(3, 2)),
            _given(2, 2, 3, q=(2, 4), k=(3, 4), v=(3, 5)),
            _given(2, q=(2, 4), k=(3, 5), v=(3, 4)),
            _given(2, q=(2, 4), k=(3, 4), v=(4, 4)),
        ],
        [
            sizes_unchecked,
            assertion_in_place_of_error,
            key_width_unchecked,
            value_count_unchecked,
            equal_lengths_demanded,
            equal_widths_demanded,
            four_axes_demanded,
            outputs_swapped,
            weights_missing,
        ],
    ),
)
