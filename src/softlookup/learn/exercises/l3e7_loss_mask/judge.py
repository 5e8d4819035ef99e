"""The loss has a mask of its own.

Goal: Write `masked_loss(logits, targets, loss_mask)`: the mean cross-entropy over the targets where
loss_mask (B, T) is True. When no target counts, raise a ValueError.

Checks: The number for several batches and masks: padding on the right, a prompt on the left, samples of
different lengths, large logits; and the error.

Ask: How many targets are in your mean, and which ones?

Hint: Take the loss of every target first, as a tensor of shape (B, T), and only then a mean.

Hint: `F.cross_entropy(..., reduction="none")` gives one loss for each target; it wants the classes on axis
1: (B, V, T).

Hint: `losses[loss_mask]` picks those that count. Their mean is their sum divided by `loss_mask.sum()`.
"""

import torch
from torch.nn.functional import cross_entropy

from softlookup.learn.mistakes import shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Computes

KIND = "write"
AS_GIVEN = "not-written"

_MEANS = ("mean", "sum", "div", "truediv", "cross_entropy", "nll_loss")
_LOSSES = ("cross_entropy", "nll_loss", "log_softmax", "softmax", "gather", "logsumexp")


def _losses(logits, targets):
    return cross_entropy(logits.transpose(1, 2), targets, reduction="none")


def _refused(loss_mask):
    if not loss_mask.any():
        raise ValueError


def masked_loss(logits, targets, loss_mask):
    _refused(loss_mask)
    return _losses(logits, targets)[loss_mask].mean()


@shown_at(*_MEANS)
def loss_counts_padding(logits, targets, loss_mask):
    """Every target counts, the padded ones as well.

    Ask: What does a model learn that is praised for predicting padding?
    """
    _refused(loss_mask)
    return _losses(logits, targets).mean()


@shown_at(*_MEANS)
def divided_by_all_positions(logits, targets, loss_mask):
    """Only the targets that count are summed, but the sum is divided by the number of all positions.

    Ask: What happens to your loss when the same batch is padded to twice the length?
    """
    _refused(loss_mask)
    return (_losses(logits, targets) * loss_mask).mean()


@shown_at(*_MEANS)
def mean_of_sample_means(logits, targets, loss_mask):
    """Each sample gets its own mean, and then these are averaged: a target in a short sample weighs more.

    Ask: With one sample of 2 targets and one of 200, how much does a single target of each count?
    """
    _refused(loss_mask)
    sums = (_losses(logits, targets) * loss_mask).sum(-1)
    return (sums / loss_mask.sum(-1)).mean()


@shown_at(*_MEANS)
def loss_summed(logits, targets, loss_mask):
    """The losses are summed and not averaged.

    Ask: What happens to your loss when the batch is twice as large?
    """
    _refused(loss_mask)
    return _losses(logits, targets)[loss_mask].sum()


@shown_at("invert", "logical_not", "masked_fill", *_MEANS)
def mask_polarity_inverted(logits, targets, loss_mask):
    """Exactly the targets that should not count are averaged.

    Ask: What does True say in loss_mask?
    """
    _refused(loss_mask)
    return _losses(logits, targets)[~loss_mask].mean()


@shown_at("mul", "masked_fill", "where", *_LOSSES)
def logits_zeroed(logits, targets, loss_mask):
    """The logits of padded positions are set to 0, but these positions still count.

    Ask: What does the softmax make of V logits that are all 0, and what is the loss of that?
    """
    _refused(loss_mask)
    return _losses(logits * loss_mask[..., None], targets).mean()


@shown_at("mul", "masked_fill", "where", *_LOSSES)
def targets_zeroed(logits, targets, loss_mask):
    """The targets of padded positions are set to 0: that is a class like any other, and it still counts.

    Ask: What does cross_entropy do with a target of 0?
    """
    _refused(loss_mask)
    return _losses(logits, targets * loss_mask).mean()


@shown_at(*_LOSSES)
def softmax_missing(logits, targets, loss_mask):
    """The logit of the target is taken for its logarithm of probability: there is no softmax.

    Ask: Does your loss change when all V logits of a position grow by 1, and should it?
    """
    _refused(loss_mask)
    return -logits.gather(-1, targets[..., None])[..., 0][loss_mask].mean()


@shown_at(*_LOSSES)
def logarithm_missing(logits, targets, loss_mask):
    """The probability of the target is averaged, not its logarithm.

    Ask: How much worse is a probability of 0.0001 than one of 0.01, in your loss and in cross-entropy?
    """
    _refused(loss_mask)
    return -logits.softmax(-1).gather(-1, targets[..., None])[..., 0][loss_mask].mean()


@shown_at(*_LOSSES)
def softmax_twice(logits, targets, loss_mask):
    """A softmax is taken before cross_entropy, which takes one itself.

    Ask: What does cross_entropy expect: logits or probabilities?
    """
    return masked_loss(logits.softmax(-1), targets, loss_mask)


@shown_at(*_LOSSES)
def softmax_over_positions(logits, targets, loss_mask):
    """The softmax runs over the positions, not over the classes.

    Ask: Which numbers compete with each other: the classes of a position, or the positions of a class?
    """
    _refused(loss_mask)
    chosen = logits.log_softmax(1).gather(-1, targets[..., None])[..., 0]
    return -chosen[loss_mask].mean()


@shown_at("view", "reshape", *_LOSSES)
def view_in_place_of_transpose(logits, targets, loss_mask):
    """The shape (B, V, T) is right, but the numbers were poured into it in the order in which they lay.

    Ask: Take a matrix with 2 rows and 3 columns: which numbers stand in row 0 after your step?
    """
    b, t, v = logits.shape
    return masked_loss(logits.reshape(b, v, t).transpose(1, 2), targets, loss_mask)


@shown_at(*_MEANS)
def sign_flipped(logits, targets, loss_mask):
    """The number has the wrong sign: training would make the targets less likely.

    Ask: Is the logarithm of a probability above or below zero?
    """
    return -masked_loss(logits, targets, loss_mask)


@shown_at(*_MEANS)
def nothing_counts_let_through(logits, targets, loss_mask):
    """A mask in which no target counts is let through.

    Ask: What is the mean of no numbers at all?
    """
    return _losses(logits, targets)[loss_mask].mean()


@shown_at(*_MEANS)
def nothing_counts_is_zero(logits, targets, loss_mask):
    """A batch in which no target counts gets a loss of 0 in silence: an error is promised.

    Ask: Who would notice a wrong loss mask when the loss is 0?
    """
    return masked_loss(logits, targets, loss_mask) if loss_mask.any() else 0.0


_MAKE = torch.Generator().manual_seed(9)


def _given(mask, classes, factor=1.0):
    loss_mask = torch.tensor(mask, dtype=torch.bool)
    logits = torch.randn(*loss_mask.shape, classes, generator=_MAKE) * factor
    return Given(logits, torch.randint(classes, loss_mask.shape, generator=_MAKE), loss_mask)


PARTS = (
    Computes(
        "masked_loss",
        masked_loss,
        [
            _given([[1, 1, 0], [1, 1, 1]], 4),
            _given([[1, 0, 0, 0], [1, 1, 1, 0]], 3),
            _given([[0, 0, 1, 1, 1], [0, 1, 1, 1, 0], [0, 0, 0, 1, 0]], 7),
            _given([[1, 1, 0], [1, 0, 0]], 5, 60.0),
            _given([[0, 0], [0, 0]], 3),
        ],
        [
            loss_counts_padding,
            divided_by_all_positions,
            mean_of_sample_means,
            loss_summed,
            mask_polarity_inverted,
            logits_zeroed,
            targets_zeroed,
            softmax_missing,
            logarithm_missing,
            softmax_twice,
            softmax_over_positions,
            view_in_place_of_transpose,
            sign_flipped,
            nothing_counts_let_through,
            nothing_counts_is_zero,
        ],
    ),
)
