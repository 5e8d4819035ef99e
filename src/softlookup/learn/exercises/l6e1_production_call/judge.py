"""The production call.

Goal: Write `attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False)` with one call of
`F.scaled_dot_product_attention`: key lengths become a mask, both rules together count, dropout acts in
training only.

Checks: The outputs for every combination of lengths, causality and dropout; how often weights are dropped in
training; and which call is made, with which arguments.

Ask: What does True mean in `attn_mask`, and who looks after `training`: you or the function?

Hint: `attn_mask` says True = allowed. A mask that has to meet (B, H, T_q, T_k) needs axes of size one for
heads and queries: the length of a sample holds for all of them.

Hint: `is_causal=True` is for the case in which causality is the only rule. With lengths as well, build one
mask out of both, as in 3.3.

Hint: A module knows whether it is in training; a function does not. Print the same call twice with
dropout_p=0.5: what would you see in an evaluation?
"""

import torch

from softlookup.attention import scaled_dot_product_attention as library_attention
from softlookup.learn.mistakes import Fault, shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Behaves, Computes
from softlookup.learn.traced import Traced

KIND = "write"
AS_GIVEN = "not-written"

_FUSED = "scaled_dot_product_attention"


def attend(q, k, v, key_lengths=None, causal=False):
    return _masked(q, k, v, _of(k, key_lengths), _causal(q, k) if causal else None)


def _of(k, key_lengths):
    """Return the lengths as a mask (B, 1, 1, T_k), True = a real key."""
    return None if key_lengths is None else torch.arange(k.size(-2)) < key_lengths[:, None, None, None]


def _causal(q, k):
    return torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril()


def _masked(q, k, v, *masks):
    both = torch.ones(1, 1, q.size(-2), k.size(-2), dtype=torch.bool)
    for mask in masks:
        both = both if mask is None else both & mask
    weights = (q @ k.transpose(-2, -1) / q.size(-1) ** 0.5).masked_fill(~both, -torch.inf).softmax(-1)
    return weights @ v


@shown_at(_FUSED)
def mask_inverted(q, k, v, key_lengths=None, causal=False):
    """The padding is looked at, and the real keys are hidden.

    Ask: What does True mean in the mask of this function, and what in yours?
    """
    real = _of(k, key_lengths)
    return _masked(q, k, v, None if real is None else ~real, _causal(q, k) if causal else None)


@shown_at(_FUSED)
def mask_inverted_as_a_whole(q, k, v, key_lengths=None, causal=False):
    """Where there are lengths, each query looks at exactly the keys that it should not see.

    Ask: What does True mean in the mask of this function, and what in yours?
    """
    if key_lengths is None:
        return attend(q, k, v, None, causal)
    allowed = _of(k, key_lengths) & _causal(q, k) if causal else _of(k, key_lengths)
    return _masked(q, k, v, ~allowed)


@shown_at(_FUSED)
def mask_ignored(q, k, v, key_lengths=None, causal=False):
    """The lengths have no influence: padding is looked at.

    Ask: Which argument of the call tells it about padding?
    """
    return attend(q, k, v, None, causal)


@shown_at(_FUSED)
def causal_dropped_with_mask(q, k, v, key_lengths=None, causal=False):
    """As soon as there are lengths, the causal rule is gone.

    Ask: `is_causal` is False where a mask is given: where else can the rule of the future be kept?
    """
    return attend(q, k, v, key_lengths, causal and key_lengths is None)


@shown_at(_FUSED)
def mask_dropped_with_causal(q, k, v, key_lengths=None, causal=False):
    """As soon as the causal rule is asked for, the lengths are forgotten.

    Ask: Which of your branches knows both the lengths and the causal rule?
    """
    return attend(q, k, v, None if causal else key_lengths, causal)


@shown_at(_FUSED)
def future_visible(q, k, v, key_lengths=None, causal=False):
    """The causal rule has no influence.

    Ask: What does your call say about the future?
    """
    return attend(q, k, v, key_lengths)


@shown_at(_FUSED)
def causal_unwanted(q, k, v, key_lengths=None, causal=False):
    """The future is hidden although nobody asked for it.

    Ask: What does the argument `causal` say when nothing is given for it?
    """
    return attend(q, k, v, key_lengths, True)


@shown_at(_FUSED)
def either_rule_is_enough(q, k, v, key_lengths=None, causal=False):
    """With both rules, a key is visible as soon as one of them allows it.

    Ask: A key is padding and lies in the past: may it be looked at?
    """
    if key_lengths is None or not causal:
        return attend(q, k, v, key_lengths, causal)
    return _masked(q, k, v, _of(k, key_lengths) | _causal(q, k))


@shown_at(_FUSED)
def length_off_by_one(q, k, v, key_lengths=None, causal=False):
    """One key of padding counts as a real key.

    Ask: A sentence has 2 tokens: which numbers have their places?
    """
    return attend(q, k, v, None if key_lengths is None else key_lengths + 1, causal)


@shown_at(_FUSED)
def mask_added_as_number(q, k, v, key_lengths=None, causal=False):
    """The mask holds numbers, and numbers are added to the scores: real keys gain 1, padding loses nothing.

    Ask: Which dtype must a mask have so that it hides, and what is another dtype taken for?
    """
    if key_lengths is None:
        return attend(q, k, v, None, causal)
    allowed = _of(k, key_lengths) & _causal(q, k) if causal else _of(k, key_lengths)
    return library_attention(q, k, v, allowed.float())[0]


@shown_at(_FUSED)
def scale_doubled(q, k, v, key_lengths=None, causal=False):
    """The scale is applied twice.

    Ask: Does the function divide by the root of d_head itself, or does it leave that to you?
    """
    return attend(q / q.size(-1) ** 0.5, k, v, key_lengths, causal)


_MAKE = torch.Generator().manual_seed(61)


def _tensors(B, H, T_q, T_k):
    return (torch.randn(B, H, T, d, generator=_MAKE) for T, d in ((T_q, 4), (T_k, 4), (T_k, 3)))


_SQUARE = tuple(_tensors(2, 2, 4, 4))
_WIDE = tuple(_tensors(3, 2, 2, 5))
_LENGTHS = torch.tensor([3, 2])
_INPUTS = (
    Given(*_SQUARE),
    Given(*_SQUARE, causal=True),
    Given(*_SQUARE, key_lengths=_LENGTHS),
    Given(*_SQUARE, key_lengths=_LENGTHS, causal=True),
    Given(*_WIDE),
    Given(*_WIDE, key_lengths=torch.tensor([2, 4, 3])),
)


def _dropping(outcomes):
    """Judge outputs that show the weights: all scores are equal, and the values are the identity."""
    quiet, busy = outcomes
    for outcome in outcomes:
        if outcome.error:
            words = f"With dropout=0.5 it stops: {outcome.error}: {outcome.message.splitlines()[0]}"
            return Fault("raises", words, "Which argument takes the probability?")
    if (quiet.value - 1 / _MANY).abs().max() > 1e-6:
        words = "Weights are dropped although `training` is False: the output is another one at every call."
        question = "Who knows whether this is training: the function that you call, or you?"
        return Fault("dropout-in-eval", words, question, (_FUSED,))
    gone = (busy.value == 0).double().mean().item()
    if gone == 0:
        words = "Dropout was asked for in training, and no weight is dropped."
        return Fault("dropout-inactive", words, "Which argument takes the probability?", (_FUSED,))
    if abs(gone - _OFTEN) > 0.05:
        words = f"{gone:.0%} of the weights are dropped; asked for are {_OFTEN:.0%}."
        return Fault("dropout-rate-wrong", words, "Is it the share that goes or that stays?", (_FUSED,))
    return None


_MANY, _OFTEN = 64, 0.25
_EQUAL = (torch.zeros(2, 2, _MANY, 4), torch.zeros(2, 2, _MANY, 4), torch.eye(_MANY).expand(2, 2, -1, -1))


def _call_made(answers):
    """Return what is wrong with the fused calls, of which the last stands for causality alone."""
    for answer in answers:
        fused = [it for it in answer.recorded if it.op == _FUSED]
        if not fused:
            words = "The outputs are right, but F.scaled_dot_product_attention is not called."
            return Fault("fused-call-missing", words, "What can a fused kernel leave out of memory?"), None
        if len(fused) > 1:
            words = f"The fused function is called {len(fused)} times for one batch."
            return Fault("call-repeated", words, "How can one mask serve all samples?"), fused[-1].line
    if fused[0].options.get("is_causal") != "True":
        words = "Causality is the only rule here, and a mask is built and handed over for it."
        question = "What can a kernel skip that is told the rule, and not if it gets a tensor?"
        return Fault("mask-for-causality-alone", words, question), fused[0].line
    return None


PARTS = (
    Computes(
        "attend",
        attend,
        _INPUTS,
        [
            mask_inverted,
            mask_inverted_as_a_whole,
            mask_ignored,
            causal_dropped_with_mask,
            mask_dropped_with_causal,
            future_visible,
            causal_unwanted,
            either_rule_is_enough,
            length_off_by_one,
            mask_added_as_number,
            scale_doubled,
        ],
    ),
    Behaves(
        "attend",
        [Given(*_EQUAL, None, False, _OFTEN, training) for training in (False, True)],
        _dropping,
        "weights are dropped in training only",
    ),
    Traced(
        "attend",
        [_INPUTS[2], _INPUTS[3], _INPUTS[1]],
        _call_made,
        "one fused call, with is_causal=True where that says it all",
    ),
)
