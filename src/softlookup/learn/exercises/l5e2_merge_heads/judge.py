"""Merge the heads.

Goal: Write `merge_heads(context, d_model)`: put what the heads found, (B, H, T, d_head), side by side for
each token, (B, T, d_model). Other shapes raise a ValueError.

Checks: Every number on several sizes, also where B, H, T and d_head are all different; the ValueErrors.

Ask: Which numbers belong to one token, and do they lie next to each other in memory?

Hint: The number of elements is right in any order, so no shape complains: follow one token by hand through
your steps.

Hint: The two axes that become one must stand next to each other, in the order (head, feature within the
head). Which swap does that?

Hint: After `transpose` the tensor is only read in another order; `view` refuses that. `contiguous` writes
it out anew, `reshape` and `flatten` do so where it is needed.
"""

import torch

from softlookup.learn.mistakes import shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Computes

KIND = "write"
AS_GIVEN = "not-written"


def merge_heads(context, d_model):
    if context.dim() != 4 or context.shape[1] * context.shape[3] != d_model:
        raise ValueError(f"heads of shape {tuple(context.shape)} do not come to d_model {d_model}")
    return context.transpose(1, 2).flatten(2)


_MOVES = ("transpose", "permute", "view", "reshape", "flatten", "einsum", "swapaxes", "stack", "cat")


@shown_at("view", "reshape", "flatten")
def heads_merged_by_view(context, d_model):
    """The memory is read on in its old order: a token gets what one head found for several tokens.

    Ask: Whose numbers come right after those of head 0 for token 0, as they lie in memory?
    """
    _checked(context, d_model)
    return context.reshape(len(context), -1, d_model)


@shown_at("view", "reshape")
def view_after_transpose(context, d_model):
    """`view` stops here: after a transpose the numbers no longer lie in the order that it would read.

    Ask: What does `is_contiguous()` say before and after your transpose?
    """
    _checked(context, d_model)
    return context.transpose(1, 2).view(len(context), -1, d_model)


@shown_at("permute", "transpose", "stack", "einsum", "swapaxes", "reshape", "flatten")
def features_take_turns(context, d_model):
    """The heads' features alternate: within a token comes the first of each head, then the second of each.

    Ask: Where in a token would the whole slice of head 0 be found?
    """
    _checked(context, d_model)
    return context.permute(0, 2, 3, 1).flatten(2)


@shown_at("sum")
def heads_summed(context, d_model):
    """The heads are added up: what one head found can no longer be told from what the others found.

    Ask: H heads of width d_head should give how wide a token?
    """
    _checked(context, d_model)
    return context.sum(1)


@shown_at("mean")
def heads_averaged(context, d_model):
    """The mean over the heads is taken: they are not kept apart.

    Ask: H heads of width d_head should give how wide a token?
    """
    _checked(context, d_model)
    return context.mean(1)


@shown_at(*_MOVES)
def heads_kept_apart(context, d_model):
    """Tokens come first, but heads and features are still two axes.

    Ask: The output projection takes tokens of width d_model: what does it get here?
    """
    _checked(context, d_model)
    return context.transpose(1, 2)


@shown_at("flip", "cat", "reversed")
def heads_reversed(context, d_model):
    """The heads stand in reversed order.

    Ask: Which head's slice came first when they were split?
    """
    return merge_heads(context.flip(1), d_model)


@shown_at("cat", "flatten", "view", "reshape")
def heads_end_to_end(context, d_model):
    """The sequences of the heads come one after another, instead of side by side: H * T tokens.

    Ask: How many tokens went into the layer, and how many come out?
    """
    _checked(context, d_model)
    return context.flatten(1, 2)


@shown_at(*_MOVES)
def tokens_before_batch(context, d_model):
    """The result has the tokens first and then the batch: (T, B, d_model).

    Ask: Which axis did the samples stand on when they came in?
    """
    return merge_heads(context, d_model).transpose(0, 1)


def unclear_error(context, d_model):
    """Heads that do not fit do raise, but only what torch says about shapes.

    Ask: Would somebody with the wrong num_heads understand what to change?
    """
    try:
        return merge_heads(context, d_model)
    except ValueError:
        raise RuntimeError from None


@shown_at(*_MOVES)
def width_not_checked(context, d_model):
    """Heads that do not come to d_model are merged all the same.

    Ask: Which two numbers should be compared before anything is moved?
    """
    if context.dim() != 4:
        raise ValueError
    return context.transpose(1, 2).flatten(2)


def _checked(context, d_model):
    merge_heads(context, d_model)  # raises on bad shapes as the right answer does


def _given(B, H, T, d_head, d_model=None):
    """500 for each sample, 100 for each head, 10 for each token: a drawing shows where each number went."""
    b, h, t, i = (torch.arange(size, dtype=torch.float32) for size in (B, H, T, d_head))
    number = 500 * b[:, None, None, None] + 100 * h[:, None, None] + 10 * t[:, None] + i
    return Given(number, H * d_head if d_model is None else d_model)


PARTS = (
    Computes(
        "merge_heads",
        merge_heads,
        [
            _given(1, 2, 3, 2),
            _given(2, 1, 3, 4),
            _given(2, 3, 1, 2),
            _given(2, 3, 4, 5),
            _given(3, 4, 2, 1),
            _given(2, 2, 4, 3, d_model=8),
            Given(torch.zeros(2, 3, 4), 8),
        ],
        [
            heads_merged_by_view,
            view_after_transpose,
            features_take_turns,
            heads_summed,
            heads_averaged,
            heads_kept_apart,
            heads_reversed,
            heads_end_to_end,
            tokens_before_batch,
            width_not_checked,
            unclear_error,
        ],
    ),
)
