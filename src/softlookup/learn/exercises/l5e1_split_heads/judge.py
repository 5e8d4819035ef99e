"""Split the heads.

Goal: Write `split_heads(x, num_heads)`: cut the width of each token of x (B, T, d_model) into num_heads
slices of d_head = d_model / num_heads, and bring the heads in front of the tokens: (B, H, T, d_head).

Checks: Every number on several sizes, one head and one token among them, and the ValueError where d_model
is not a multiple of num_heads.

Ask: Take head 0: which numbers of which tokens must it see?

Hint: Write the shape after each step as a comment. Which of the four axes may change places with which, and
which number lies next to which in memory?

Hint: A slice is a part of one token. Cut the last axis first, and leave B and T as they are: that gives
four axes in the order (B, T, H, d_head).

Hint: `view` (or `unflatten`) cuts an axis and never moves anything; `transpose` swaps two axes and never
cuts. It takes one of each, in this order.
"""

import torch

from softlookup.learn.mistakes import shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Computes

KIND = "write"
AS_GIVEN = "not-written"


def split_heads(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"d_model {x.shape[-1]} is not a multiple of num_heads {num_heads}")
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


_MOVES = ("transpose", "permute", "view", "reshape", "unflatten", "einsum", "swapaxes", "stack", "cat")


@shown_at("view", "reshape", "unflatten", "stack", "cat")
def heads_split_by_view(x, num_heads):
    """A head got whole tokens, or pieces of several: memory was read on in the order in which it lies.

    Ask: Which tokens does your head 0 see, and which should it see?
    """
    _checked(x, num_heads)
    B, T, d_model = x.shape
    return x.reshape(B, num_heads, T, d_model // num_heads)


@shown_at("view", "reshape", "unflatten", "stack")
def heads_take_turns(x, num_heads):
    """The features go to the heads in turns, like cards that are dealt: a head has no slice in one piece.

    Ask: Head 0 shall get the first d_head features of a token: which ones does it get here?
    """
    _checked(x, num_heads)
    B, T, d_model = x.shape
    return x.reshape(B, T, d_model // num_heads, num_heads).permute(0, 3, 1, 2)


@shown_at("view", "reshape", "unflatten", "chunk", "split", "stack")
def heads_after_tokens(x, num_heads):
    """The slices are right, but the heads still come after the tokens: (B, T, H, d_head).

    Ask: The scores are made from the last two axes: who would be compared with whom?
    """
    return split_heads(x, num_heads).transpose(1, 2)


@shown_at(*_MOVES)
def tokens_last(x, num_heads):
    """The last two axes have changed places: (B, H, d_head, T).

    Ask: Which axis do q and k multiply over, and where does it stand?
    """
    return split_heads(x, num_heads).transpose(-2, -1)


@shown_at("expand", "repeat", "repeat_interleave", "stack", "unsqueeze")
def width_duplicated(x, num_heads):
    """Every head gets the whole width d_model.

    Ask: With twice as many heads, how many numbers should there be in all?
    """
    _checked(x, num_heads)
    return x[:, None].expand(-1, num_heads, -1, -1)


@shown_at(*_MOVES)
def heads_merged_into_batch(x, num_heads):
    """Heads and batch share one axis: three axes are left of four.

    Ask: Where does a mask of shape (B, 1, T, T) find its sample in that?
    """
    return split_heads(x, num_heads).flatten(0, 1)


@shown_at(*_MOVES)
def heads_before_batch(x, num_heads):
    """The heads come before the batch: (H, B, T, d_head).

    Ask: Which axis of a mask (B, 1, T, T) would meet your heads?
    """
    return split_heads(x, num_heads).transpose(0, 1)


@shown_at("view", "reshape", "narrow", "split", "getitem")
def rest_dropped(x, num_heads):
    """Where d_model is not a multiple of num_heads, features are left out without a word.

    Ask: What happens to the last features of a token of width 5 with 2 heads?
    """
    d_head = x.shape[-1] // num_heads
    return split_heads(x[..., : d_head * num_heads], num_heads)


def unclear_error(x, num_heads):
    """Bad sizes do raise, but only what torch says about shapes.

    Ask: Would somebody who wrote num_heads=3 by mistake understand what to change?
    """
    if x.shape[-1] % num_heads:
        raise RuntimeError
    return split_heads(x, num_heads)


def assertion_error(x, num_heads):
    """Bad sizes raise an AssertionError; a ValueError is asked for.

    Ask: What is left of an assert when Python runs with -O?
    """
    if x.shape[-1] % num_heads:
        raise AssertionError
    return split_heads(x, num_heads)


def _checked(x, num_heads):
    split_heads(x, num_heads)  # raises on bad sizes as the right answer does


def _given(B, T, d_model, num_heads):
    """Number i of token t of sample b is 100 b + 10 t + i: a drawing shows where each one went."""
    b, t, i = (torch.arange(size, dtype=torch.float32) for size in (B, T, d_model))
    return Given(100 * b[:, None, None] + 10 * t[:, None] + i, num_heads)


PARTS = (
    Computes(
        "split_heads",
        split_heads,
        [
            _given(1, 3, 4, 2),
            _given(1, 1, 4, 2),
            _given(2, 3, 4, 1),
            _given(2, 3, 6, 3),
            _given(2, 4, 8, 2),
            _given(3, 5, 6, 6),
            _given(1, 2, 5, 2),
            _given(2, 2, 4, 3),
        ],
        [
            heads_split_by_view,
            heads_take_turns,
            heads_after_tokens,
            tokens_last,
            width_duplicated,
            heads_merged_into_batch,
            heads_before_batch,
            rest_dropped,
            unclear_error,
            assertion_error,
        ],
    ),
)
