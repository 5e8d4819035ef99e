"""The other polarity.

Goal: Write `to_blocked_mask(allowed_mask)`, which turns a mask (T, T) with True = allowed into one with
True = blocked and asserts that every query still sees its own key; and
`to_key_padding_mask(token_ids, pad_id=0)`, (B, T_k) with True = blocked.

Checks: Both for several masks and tokens: shape, dtype, every entry; and that a mask which hides the
diagonal raises an AssertionError.

Ask: Read both names aloud with one entry of the result: "this key is ..., so True or False"?

Hint: `~` turns a boolean tensor round, and makes a new one.

Hint: `mask.diagonal()` holds for each query whether it sees its own key. In a blocked mask, what must stand
there?

Hint: `nn.MultiheadAttention` adds the axes for heads and queries to `key_padding_mask` by itself: no
unsqueeze, and True on the padding.
"""

import torch

from softlookup.learn.mistakes import shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Computes

KIND = "write"
AS_GIVEN = "not-written"

_TURNED = ("invert", "logical_not", "bitwise_not", "eq", "ne", "rsub", "xor", "clone")


def to_blocked_mask(allowed_mask):
    assert allowed_mask.diagonal().all()
    return ~allowed_mask


def polarity_not_turned(allowed_mask):
    """True still means allowed: the layer would look at exactly the keys that it should not see.

    Ask: What stands on the diagonal of your result, and what would the layer take it for?
    """
    assert allowed_mask.diagonal().all()
    return allowed_mask


@shown_at(*_TURNED)
def diagonal_not_checked(allowed_mask):
    """A mask that hides tokens from themselves is let through: the mix-up stays unseen.

    Ask: Somebody hands in a mask that was turned round already: what comes back?
    """
    return ~allowed_mask


def first_token_checked(allowed_mask):
    """Only one entry of the diagonal is looked at.

    Ask: How many queries does a mask (T, T) have, and which of them must see themselves?
    """
    assert allowed_mask[0, 0]
    return ~allowed_mask


def one_visible_is_enough(allowed_mask):
    """It is enough for you when one query sees its own key; every query has to.

    Ask: Is your check about all entries of the diagonal, or about any of them?
    """
    assert allowed_mask.diagonal().any()
    return ~allowed_mask


def only_empty_rows_checked(allowed_mask):
    """It is only checked that each query sees some key. A mask that is turned round mostly passes that.

    Ask: The last query of a mask that was turned round already: does it see another key than its own?
    """
    assert allowed_mask.any(-1).all()
    return ~allowed_mask


def diagonal_demanded_blocked(allowed_mask):
    """The check is the wrong way round: good masks are refused.

    Ask: What stands on the diagonal of a causal mask with True = allowed, and what after it was turned round?
    """
    assert not allowed_mask.diagonal().any()
    return ~allowed_mask


def another_error(allowed_mask):
    """Something else than an AssertionError is raised where the diagonal is hidden.

    Ask: What does the word `assert` raise, and what is promised above?
    """
    if not allowed_mask.diagonal().all():
        raise ValueError
    return ~allowed_mask


@shown_at("sub", "rsub", "neg", "int", "float", "long")
def numbers_in_place_of_bool(allowed_mask):
    """The pattern is right, but these are numbers: the layer would add them to the scores.

    Ask: What does `attn_mask` with numbers mean, 0 and 1 among them?
    """
    assert allowed_mask.diagonal().all()
    return (~allowed_mask).int()


@shown_at("masked_fill", "full", "where")
def additive_in_place_of_bool(allowed_mask):
    """These are numbers to be added to scores; a boolean mask is asked for.

    Ask: What would the next `~` do with it?
    """
    assert allowed_mask.diagonal().all()
    return torch.zeros(allowed_mask.shape).masked_fill(~allowed_mask, -torch.inf)


@shown_at("triu", "tril")
def made_anew(allowed_mask):
    """The result is the causal mask, whatever was handed in.

    Ask: What becomes of a window, or of packed documents, in your function?
    """
    assert allowed_mask.diagonal().all()
    return torch.ones_like(allowed_mask).triu(1)


@shown_at("t", "transpose", "getattr")
def transposed_in_place_of_turned(allowed_mask):
    """Rows and columns have changed places; True and False should.

    Ask: Is the transpose of "allowed" the same as "blocked", also on the diagonal?
    """
    assert allowed_mask.diagonal().all()
    return allowed_mask.T


def to_key_padding_mask(token_ids, pad_id=0):
    return token_ids == pad_id


@shown_at("ne", "eq", "logical_not", "invert", "bool")
def real_tokens_blocked(token_ids, pad_id=0):
    """The real tokens are blocked, and the padding is looked at.

    Ask: What does True mean in `key_padding_mask`?
    """
    return token_ids != pad_id


@shown_at("eq", "ne", "getitem", "unsqueeze", "view")
def axes_for_heads_added(token_ids, pad_id=0):
    """There are four axes; this layer wants (B, T_k).

    Ask: Who adds the axes for heads and queries here: you or the layer?
    """
    return (token_ids == pad_id)[:, None, None]


@shown_at("eq", "logical_not", "invert", "bool")
def pad_id_ignored(token_ids, pad_id=0):
    """Padding is always taken for 0.

    Ask: What is the argument pad_id for?
    """
    return token_ids == 0


@shown_at("eq", "int", "long", "float")
def padding_as_numbers(token_ids, pad_id=0):
    """The pattern is right, but these are numbers: the layer would add them to the scores.

    Ask: Which dtype says "blocked", and which says "add this"?
    """
    return (token_ids == pad_id).int()


@shown_at("eq", "cumsum", "cumprod", "cummax", "flip")
def everything_after_padding_blocked(token_ids, pad_id=0):
    """Real tokens that stand after padding are blocked too.

    Ask: Some models put the padding in front: what is left of the sentence then?
    """
    return (token_ids == pad_id).int().cummax(-1).values.bool()


@shown_at("le", "lt", "gt", "ge")
def smaller_ids_blocked(token_ids, pad_id=0):
    """Every number up to pad_id counts as padding.

    Ask: Is the number of a token a size, or a name?
    """
    return token_ids <= pad_id


_T = True
_F = False
_CAUSAL = torch.ones(4, 4, dtype=torch.bool).tril()
_WINDOW = _CAUSAL & ~_CAUSAL.tril(-2)
_DOCUMENTS = torch.block_diag(torch.ones(2, 2), torch.ones(1, 1)).bool()
_ONE_HIDDEN = torch.tensor([[_T, _F, _F], [_T, _F, _F], [_T, _T, _T]])
_LOPSIDED = torch.tensor([[_T, _T, _F], [_F, _T, _T], [_F, _F, _T]])

PARTS = (
    Computes(
        "to_blocked_mask",
        to_blocked_mask,
        [
            Given(torch.ones(3, 3, dtype=torch.bool).tril()),
            Given(_CAUSAL),
            Given(_WINDOW),
            Given(_DOCUMENTS),
            Given(_LOPSIDED),
            Given(torch.ones(2, 2, dtype=torch.bool)),
            Given(~_CAUSAL),
            Given(_ONE_HIDDEN),
            Given(torch.tensor([[_T, _F], [_T, _F]])),
            Given(torch.tensor([[_F, _T], [_T, _T]])),
            Given(torch.tensor([[_F, _T, _T], [_T, _F, _T], [_T, _T, _F]])),
        ],
        [
            polarity_not_turned,
            diagonal_not_checked,
            first_token_checked,
            one_visible_is_enough,
            only_empty_rows_checked,
            diagonal_demanded_blocked,
            another_error,
            numbers_in_place_of_bool,
            additive_in_place_of_bool,
            made_anew,
            transposed_in_place_of_turned,
        ],
    ),
    Computes(
        "to_key_padding_mask",
        to_key_padding_mask,
        [
            Given(torch.tensor([[12, 91, 0], [44, 17, 29]])),
            Given(torch.tensor([[0, 0, 7, 5]])),
            Given(torch.tensor([[3, 0, 2], [2, 2, 1]]), 2),
            Given(torch.tensor([[5, 9, 1]]), pad_id=9),
        ],
        [
            real_tokens_blocked,
            axes_for_heads_added,
            pad_id_ignored,
            padding_as_numbers,
            everything_after_padding_blocked,
            smaller_ids_blocked,
        ],
    ),
)
