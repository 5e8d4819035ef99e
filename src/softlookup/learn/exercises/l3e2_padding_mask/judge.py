"""A padding mask.

Goal: Write `make_padding_allowed_mask(token_ids, pad_id=0)`: from token ids (B, T_k) a boolean mask of
shape (B, 1, 1, T_k) in which True means that this key is a real token.

Checks: Shape, dtype and every entry: padding on the right, on the left and in between, other padding
tokens, a sample without padding and one that is nothing else.

Ask: Which axis of the scores (B, H, T_q, T_k) do the token ids belong to, and on which axes is the mask the
same?

Hint: Comparing a tensor with a number gives a boolean tensor of the same shape.

Hint: The result should be True on real tokens: which comparison is that, equal or not equal?

Hint: Indexing with None puts in an axis of size one: `x[:, None]` makes (B, T) into (B, 1, T).
"""

import torch

from softlookup.learn.mistakes import shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Computes
from softlookup.masks.builders import make_padding_allowed_mask

KIND = "write"
AS_GIVEN = "not-written"

_COMPARISONS = ("ne", "eq", "gt", "ge", "lt", "logical_not", "invert")
_SHAPING = ("__getitem__", "getitem", "unsqueeze", "view", "reshape", "expand")


def _real(token_ids, pad_id):
    return token_ids != pad_id


@shown_at(*_COMPARISONS)
def mask_polarity_inverted(token_ids, pad_id=0):
    """True and False have changed places: here True means that the key may be looked at.

    Ask: Read the name of the function aloud: what should True say?
    """
    return ~_real(token_ids, pad_id)[:, None, None]


@shown_at(*_SHAPING)
def mask_hides_queries(token_ids, pad_id=0):
    """The pattern lies along the queries: padded rows are hidden, and padded keys stay visible to all others.

    Ask: In (B, H, T_q, T_k), on which axis stands the one who is looked at?
    """
    return _real(token_ids, pad_id)[:, None, :, None]


@shown_at(*_SHAPING)
def padding_along_heads(token_ids, pad_id=0):
    """The pattern lies along the second axis, which belongs to the heads.

    Ask: In (B, H, T_q, T_k), on which axis stands the one who is looked at?
    """
    return _real(token_ids, pad_id)[:, :, None, None]


@shown_at(*_COMPARISONS, *_SHAPING)
def middle_axes_missing(token_ids, pad_id=0):
    """The pattern is right, but the axes for heads and queries are missing.

    Ask: What do (B, T_k) and (B, H, T_q, T_k) align when they meet, counted from the back?
    """
    return _real(token_ids, pad_id)


@shown_at(*_COMPARISONS, *_SHAPING)
def one_middle_axis(token_ids, pad_id=0):
    """One axis is missing: beside (B, H, T_q, T_k) the samples would stand where the heads are.

    Ask: How many axes do the scores have, and how many does your mask?
    """
    return _real(token_ids, pad_id)[:, None]


@shown_at(*_SHAPING)
def batch_not_first(token_ids, pad_id=0):
    """The two new axes stand in front: the samples would be taken for queries.

    Ask: Which axis of your mask counts the samples, and which axis of the scores does?
    """
    return _real(token_ids, pad_id)[None, None]


@shown_at(*_COMPARISONS)
def pad_id_ignored(token_ids, pad_id=0):
    """The padding token is taken for 0, whatever the caller says.

    Ask: What does your mask say when pad_id is 1?
    """
    return _real(token_ids, 0)[:, None, None]


@shown_at(*_COMPARISONS)
def only_larger_ids_real(token_ids, pad_id=0):
    """Tokens with a smaller number than the padding token are hidden as well.

    Ask: What does your mask say when the padding token is the last one of the vocabulary?
    """
    return (token_ids > pad_id)[:, None, None]


@shown_at("sum", "arange", "lt", "lengths")
def padding_side_assumed(token_ids, pad_id=0):
    """The real tokens are counted, and taken for the first ones.

    Ask: What if the padding stands on the left, as for generation in a batch?
    """
    lengths = _real(token_ids, pad_id).sum(-1, keepdim=True)
    return (torch.arange(token_ids.size(1)) < lengths)[:, None, None]


@shown_at(*_COMPARISONS, *_SHAPING)
def mask_shared_across_batch(token_ids, pad_id=0):
    """All samples get the mask of the first one.

    Ask: Do all samples of a batch have the same length?
    """
    return _real(token_ids, pad_id)[:1].expand_as(token_ids)[:, None, None]


@shown_at("float", "int", "long", "to", "type", "where", *_COMPARISONS)
def numbers_in_place_of_bool(token_ids, pad_id=0):
    """The pattern is right, but it holds numbers and not booleans.

    Ask: What would `masked_fill` or `~` do with numbers?
    """
    return _real(token_ids, pad_id)[:, None, None].float()


@shown_at("float", "int", "long", "to", "type", "where", *_COMPARISONS)
def integers_in_place_of_bool(token_ids, pad_id=0):
    """The pattern is right, but it holds integers and not booleans.

    Ask: What is `~1` for an integer, and is it true or false?
    """
    return _real(token_ids, pad_id)[:, None, None].long()


@shown_at("masked_fill", "where", "full", "zeros")
def additive_in_place_of_bool(token_ids, pad_id=0):
    """These are numbers to add to scores; a boolean mask is asked for.

    Ask: What does `~` do to your mask, and what to a boolean one?
    """
    return torch.zeros(token_ids.shape).masked_fill(~_real(token_ids, pad_id), -torch.inf)[:, None, None]


@shown_at(*_SHAPING, "repeat")
def mask_for_every_query(token_ids, pad_id=0):
    """The pattern is right, but it is repeated for every query: an axis of size one is promised.

    Ask: How large does your mask become for 8000 tokens?
    """
    t = token_ids.size(1)
    return _real(token_ids, pad_id)[:, None, None].expand(-1, 1, t, -1)


_BATCHES = (
    ([[12, 91, 0], [44, 17, 29]], 0),
    ([[12, 91, 33, 0, 0], [44, 17, 29, 81, 5]], 0),
    ([[0, 0, 7, 8], [5, 6, 7, 8]], 0),
    ([[3, 0, 4, 1, 1], [1, 1, 1, 1, 1], [2, 1, 9, 0, 1]], 1),
    ([[3, 6, 99], [2, 99, 99]], 99),
)

PARTS = (
    Computes(
        "make_padding_allowed_mask",
        make_padding_allowed_mask,
        [Given(torch.tensor(ids), pad_id) for ids, pad_id in _BATCHES],
        [
            mask_polarity_inverted,
            mask_hides_queries,
            padding_along_heads,
            middle_axes_missing,
            one_middle_axis,
            batch_not_first,
            pad_id_ignored,
            only_larger_ids_real,
            padding_side_assumed,
            mask_shared_across_batch,
            numbers_in_place_of_bool,
            integers_in_place_of_bool,
            additive_in_place_of_bool,
            mask_for_every_query,
        ],
    ),
)
