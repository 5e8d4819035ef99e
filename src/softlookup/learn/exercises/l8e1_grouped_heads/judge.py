"""Grouped heads.

Goal: Write `spread_heads(heads, num_heads)`, which repeats shared heads (B, H_kv, T_k, d) so that every query
head has one, and `grouped_attention(q, k, v, allowed_mask=None)`, which uses it.

Checks: `spread_heads` for several numbers of heads, with the ValueError; then that `grouped_attention` is
attention without a finding, with shared heads and without.

Ask: With 4 query heads and 2 shared ones: which shared head does query head 1 use?

Hint: Write down, for query heads 0, 1, 2, 3, the number of the shared head of each. Is it 0 0 1 1 or 0 1 0 1?

Hint: `repeat` lays the whole list down again and again, `repeat_interleave` repeats each entry on the spot.
Try both on torch.tensor([0, 1]).

Hint: Heads stand on axis 1. Afterwards k and v have as many heads as q, and the lookup is that of lesson 3.
"""

import torch

from softlookup.learn.mistakes import shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Attends, Computes
from softlookup.terms import Contract

KIND = "write"
AS_GIVEN = "not-written"

_REPEATED = ("repeat", "tile", "expand", "repeat_interleave", "reshape", "cat", "flatten", "stack")


def _times(heads, num_heads):
    if num_heads % heads.size(1):
        raise ValueError
    return num_heads // heads.size(1)


def spread_heads(heads, num_heads):
    return heads.repeat_interleave(_times(heads, num_heads), dim=1)


@shown_at(*_REPEATED)
def kv_heads_tiled(heads, num_heads):
    """The shared heads come in turns: neighbouring query heads get different ones.

    Ask: Which query heads share head 0: the first ones, or every second one?
    """
    return heads.repeat(1, _times(heads, num_heads), 1, 1)


@shown_at(*_REPEATED)
def tokens_repeated(heads, num_heads):
    """The tokens are repeated, not the heads.

    Ask: What do the four axes of your tensor stand for, and which of them should grow?
    """
    return heads.repeat_interleave(_times(heads, num_heads), dim=2)


@shown_at(*_REPEATED)
def samples_repeated(heads, num_heads):
    """The samples are repeated, not the heads.

    Ask: What do the four axes of your tensor stand for, and which of them should grow?
    """
    return heads.repeat_interleave(_times(heads, num_heads), dim=0)


@shown_at(*_REPEATED)
def features_repeated(heads, num_heads):
    """The features are repeated, not the heads.

    Ask: What do the four axes of your tensor stand for, and which of them should grow?
    """
    return heads.repeat_interleave(_times(heads, num_heads), dim=-1)


@shown_at(*_REPEATED)
def too_many_repeated(heads, num_heads):
    """Every shared head is repeated as often as there are query heads.

    Ask: How many query heads share one key head, and how many heads come out in all?
    """
    _times(heads, num_heads)
    return heads.repeat_interleave(num_heads, dim=1)


@shown_at("getitem", "expand", *_REPEATED)
def only_first_head_used(heads, num_heads):
    """All query heads get the first shared head.

    Ask: Who uses the second one?
    """
    _times(heads, num_heads)
    return heads[:, :1].expand(-1, num_heads, -1, -1)


@shown_at("mean", "sum", *_REPEATED)
def shared_heads_averaged(heads, num_heads):
    """The shared heads are averaged into one.

    Ask: What is left of two different heads in their mean?
    """
    _times(heads, num_heads)
    return heads.mean(1, keepdim=True).expand(-1, num_heads, -1, -1)


@shown_at(*_REPEATED)
def not_repeated(heads, num_heads):
    """The shared heads come back as they are: broadcasting helps only where there is one of them.

    Ask: Can (B, 8, T, d) meet (B, 2, T, d)?
    """
    _times(heads, num_heads)
    return heads


@shown_at(*_REPEATED)
def sharing_unchecked(heads, num_heads):
    """A number of query heads that cannot be shared out evenly is let through: some get no head.

    Ask: 5 query heads share 2: how many heads does your function return?
    """
    return heads.repeat_interleave(num_heads // heads.size(1), dim=1)


def another_error(heads, num_heads):
    """Something else than a ValueError is raised where heads cannot be shared out evenly.

    Ask: What is promised above, and who reads the message?
    """
    if num_heads % heads.size(1):
        raise Exception
    return spread_heads(heads, num_heads)


_MAKE = torch.Generator().manual_seed(81)


def _given(shared, num_heads, B=1, T_k=2, d=2):
    return Given(torch.randn(B, shared, T_k, d, generator=_MAKE), num_heads)


PARTS = (
    Computes(
        "spread_heads",
        spread_heads,
        [
            _given(2, 4),
            _given(1, 3),
            _given(2, 2),
            _given(3, 6, B=2, T_k=4, d=3),
            _given(2, 8, T_k=3),
            _given(2, 5),
            _given(4, 2),
        ],
        [
            kv_heads_tiled,
            tokens_repeated,
            samples_repeated,
            features_repeated,
            too_many_repeated,
            only_first_head_used,
            shared_heads_averaged,
            not_repeated,
            sharing_unchecked,
            another_error,
        ],
    ),
    Attends(
        "grouped_attention",
        Contract(layout="B H T d", mask="allowed", causal="none", kv_heads="grouped"),
    ),
)
