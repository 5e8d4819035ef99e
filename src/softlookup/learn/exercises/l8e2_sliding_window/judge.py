"""A sliding window.

Goal: Write `make_window_allowed_mask(seq_len, window)`, a boolean mask (1, 1, T, T) in which a query sees its
own key and the window - 1 keys before it, and `visible_count(seq_len, window)`, the number of its True
entries.

Checks: Every entry of the mask for several lengths and windows, windows longer than the text among them; the
ValueError; then the counts, for lengths whose mask would not fit into memory as well.

Ask: With a window of 3: which keys does query 5 see, and how many are these?

Hint: Draw it for T = 5 and a window of 2: a band along the diagonal, two entries wide.

Hint: Two conditions on the positions: a key does not come after its query, and it lies fewer than `window`
steps before it. Positions as a column and as a row give a matrix when they are compared.

Hint: For the count, look at the drawing row by row: the first rows grow by one until the window is full, and
all others have `window` entries.
"""

import torch

from softlookup.learn.mistakes import shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Computes
from softlookup.masks.builders import sliding_window

KIND = "write"
AS_GIVEN = "not-written"

_EDGES = ("triu", "tril", "lt", "le", "gt", "ge", "and", "bitwise_and", "logical_and")


def _reach(seq_len):
    """Return by how many steps each key lies before its query (T, T)."""
    i = torch.arange(seq_len)
    return i[:, None] - i


def make_window_allowed_mask(seq_len, window):
    return sliding_window(window).dense(seq_len, seq_len).view(1, 1, seq_len, seq_len)


def _refusing(window):
    if window < 1:
        raise ValueError


@shown_at(*_EDGES)
def window_off_by_one(seq_len, window):
    """Every query sees one key more than the window has.

    Ask: Does the window count the keys that are seen, or the steps back to the farthest one?
    """
    _refusing(window)
    far = _reach(seq_len)
    return ((far >= 0) & (far <= window))[None, None]


@shown_at(*_EDGES)
def window_one_too_narrow(seq_len, window):
    """Every query sees one key fewer than the window has.

    Ask: A window of 1: which keys does a query see, and which in your mask?
    """
    _refusing(window)
    far = _reach(seq_len)
    return ((far >= 0) & (far < window - 1))[None, None]


@shown_at(*_EDGES)
def self_hidden(seq_len, window):
    """The window is moved back by one: a query sees the keys before it, and not its own.

    Ask: What does the first query see?
    """
    _refusing(window)
    far = _reach(seq_len)
    return ((far > 0) & (far <= window))[None, None]


@shown_at(*_EDGES)
def future_visible(seq_len, window):
    """The window reaches ahead as far as it reaches back.

    Ask: Which keys come after a query, and what does |i - j| make of them?
    """
    _refusing(window)
    return (_reach(seq_len).abs() < window)[None, None]


@shown_at(*_EDGES)
def window_around_query(seq_len, window):
    """The window lies around the query, half of it ahead.

    Ask: Which keys come after a query, and are any of them allowed?
    """
    _refusing(window)
    return (_reach(seq_len).abs() <= window // 2)[None, None]


@shown_at(*_EDGES)
def window_ahead(seq_len, window):
    """The window lies ahead of the query, not behind it.

    Ask: Row 0 is the first query: which keys does it see in your mask?
    """
    _refusing(window)
    return ((_reach(seq_len) <= 0) & (_reach(seq_len) > -window))[None, None]


@shown_at(*_EDGES)
def window_ignored(seq_len, window):
    """All earlier keys are visible: the window has no influence.

    Ask: Which of your lines speaks of the far edge?
    """
    _refusing(window)
    return (_reach(seq_len) >= 0)[None, None]


@shown_at(*_EDGES)
def only_far_keys_visible(seq_len, window):
    """It is the keys beyond the window that are visible.

    Ask: Is your second condition one of the keys that are near, or of those that are far?
    """
    _refusing(window)
    return (_reach(seq_len) >= window)[None, None]


@shown_at(*_EDGES, "floor_divide", "floordiv", "div")
def blocks_in_place_of_window(seq_len, window):
    """The text is cut into blocks, and a query sees its own block only: the window does not slide.

    Ask: How many keys does the first query of the second block see?
    """
    _refusing(window)
    block = torch.arange(seq_len) // window
    return ((_reach(seq_len) >= 0) & (block[:, None] == block))[None, None]


@shown_at(*_EDGES, "invert", "logical_not")
def mask_inverted(seq_len, window):
    """True and False have changed places.

    Ask: Read the name of the function aloud: what should True say?
    """
    return ~make_window_allowed_mask(seq_len, window)


@shown_at(*_EDGES)
def leading_axes_missing(seq_len, window):
    """The matrix is right, but the two leading axes for batch and heads are missing.

    Ask: Scores have the shape (B, H, T_q, T_k): how can one mask serve all samples and heads?
    """
    return make_window_allowed_mask(seq_len, window)[0, 0]


@shown_at(*_EDGES)
def empty_window_unchecked(seq_len, window):
    """A window without keys is let through.

    Ask: What is the softmax of a row that may look nowhere?
    """
    return ((_reach(seq_len) >= 0) & (_reach(seq_len) < window))[None, None]


@shown_at("triu", "tril", "mul")
def numbers_in_place_of_bool(seq_len, window):
    """The pattern is right, but it holds numbers and not booleans.

    Ask: What would `masked_fill` or `~` do with numbers?
    """
    return make_window_allowed_mask(seq_len, window).float()


def visible_count(seq_len, window):
    return window * seq_len - window * (window - 1) // 2


def first_rows_counted_full(seq_len, window):
    """Every query is counted with a full window, the first ones as well.

    Ask: How many keys can the first query see?
    """
    return window * seq_len


def first_rows_left_out(seq_len, window):
    """The queries that see fewer keys than the window allows are left out.

    Ask: Draw the mask for T = 3 and a window of 2: how many entries has its first row?
    """
    return window * (seq_len - window + 1)


def corner_off_by_one(seq_len, window):
    """The first rows are counted with one entry too many or too few each.

    Ask: How many entries do the first two rows of a window of 2 have together?
    """
    return window * (window - 1) // 2 + window * (seq_len - window)


def causal_pairs_counted(seq_len, window):
    """All causal pairs are counted, as if there were no window.

    Ask: How many keys does the last query of a long text see?
    """
    return seq_len * (seq_len + 1) // 2


def all_pairs_counted(seq_len, window):
    """All pairs are counted, those that are hidden as well.

    Ask: How many keys does the last query of a long text see?
    """
    return seq_len * seq_len


def count_as_float(seq_len, window):
    """The number is right, but it is a float: pairs are counted.

    Ask: Which of the two divisions of Python gives an integer?
    """
    return float(visible_count(seq_len, window))


PARTS = (
    Computes(
        "make_window_allowed_mask",
        make_window_allowed_mask,
        [
            Given(4, 2),
            Given(3, 1),
            Given(5, 3),
            Given(6, 4),
            Given(3, 5),
            Given(1, 1),
            Given(3, 0),
            Given(3, -1),
        ],
        [
            window_off_by_one,
            window_one_too_narrow,
            self_hidden,
            future_visible,
            window_around_query,
            window_ahead,
            window_ignored,
            only_far_keys_visible,
            blocks_in_place_of_window,
            mask_inverted,
            leading_axes_missing,
            empty_window_unchecked,
            numbers_in_place_of_bool,
        ],
    ),
    Computes(
        "visible_count",
        visible_count,
        [Given(3, 2), Given(5, 1), Given(6, 6), Given(7, 3), Given(5_000_000, 4096)],
        [
            first_rows_counted_full,
            first_rows_left_out,
            corner_off_by_one,
            causal_pairs_counted,
            all_pairs_counted,
            count_as_float,
        ],
    ),
)
