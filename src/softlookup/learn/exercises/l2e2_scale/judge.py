"""Why the scale.

Goal: Write `scaled_scores(q, k)`, whose variance does not grow with d_k, and `variance_of_dots(d_k,
scaled)`, which measures it on random pairs: for d_k = 64 about 64 before the scale, about 1 after it.

Checks: The scores on several sizes; the measured variance for d_k = 16 and 64, before and after the scale.

Ask: When every score is divided by some number, by what is their variance divided?

Hint: The variance of a sum of d_k independent products is d_k times that of one of them, and this one is 1.

Hint: Dividing numbers by c divides their variance by c * c. Which c makes d_k into 1?

Hint: To measure: `torch.randn(samples, 1, d_k)` twice, the scores of these, and `.var()` of all of them.
"""

import math

import torch

from softlookup.learn.mistakes import Fault, shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Behaves, Computes

KIND = "write"
AS_GIVEN = "not-written"

_ON_THE_LINE = ("div", "truediv", "mul", "matmul", "bmm", "einsum")


def _dots(q, k):
    return q @ k.transpose(-2, -1)


def scaled_scores(q, k):
    return _dots(q, k) / math.sqrt(q.size(-1))


@shown_at(*_ON_THE_LINE)
def scale_missing(q, k):
    """The dot products are not scaled.

    Ask: What is the variance of your scores for d_k = 64?
    """
    return _dots(q, k)


@shown_at(*_ON_THE_LINE)
def scale_not_rooted(q, k):
    """All in all the scores are divided by d_k: their variance becomes 1 / d_k, and the softmax turns flat.

    Ask: When every score is divided by c, by what is the variance divided?
    """
    return _dots(q, k) / q.size(-1)


@shown_at(*_ON_THE_LINE)
def scale_inverted(q, k):
    """The factor makes the scores larger.

    Ask: Is the variance of your scores above or below d_k?
    """
    return _dots(q, k) * math.sqrt(q.size(-1))


@shown_at(*_ON_THE_LINE)
def scale_wrong_width(q, k):
    """The scores are divided by the root of a length, not by that of the width.

    Ask: Over which axis is the sum of a dot product, and how long is this axis?
    """
    return _dots(q, k) / math.sqrt(q.size(-2))


@shown_at(*_ON_THE_LINE)
def scale_counts_keys(q, k):
    """The scores are divided by the root of the number of keys, not by that of the width.

    Ask: Over which axis is the sum of a dot product, and how long is this axis?
    """
    return _dots(q, k) / math.sqrt(k.size(-2))


@shown_at(*_ON_THE_LINE)
def scale_constant(q, k):
    """The factor fits d_k = 64 only.

    Ask: Where does your 8 come from, and what is it for d_k = 4?
    """
    return _dots(q, k) / 8


@shown_at("normalize", *_ON_THE_LINE)
def cosine_in_place_of_scale(q, k):
    """The vectors are brought to length one: that also throws away how long a query and a key are.

    Ask: What should become of the scores of a query that is twice as long?
    """
    q, k = torch.nn.functional.normalize(q, dim=-1), torch.nn.functional.normalize(k, dim=-1)
    return _dots(q, k)


@shown_at("std", *_ON_THE_LINE)
def scale_measured(q, k):
    """The scores are divided by their own spread, so every call has another factor.

    Ask: What would become of a score when another query joins the batch?
    """
    return _dots(q, k) / _dots(q, k).std()


@shown_at(*_ON_THE_LINE)
def scores_transposed(q, k):
    """Keys stand in the rows and queries in the columns.

    Ask: Whose row is it: that of the one who asks, or of the one who is found?
    """
    return scaled_scores(k, q)


@shown_at("softmax")
def softmax_applied(q, k):
    """These are weights already: the scaled scores are asked for.

    Ask: What comes after the scale, and is it asked for here?
    """
    return torch.softmax(scaled_scores(q, k), -1)


_MAKE = torch.Generator().manual_seed(5)


def _given(*leading, t_q, t_k, d):
    sizes = (*leading, t_q, d), (*leading, t_k, d)
    return Given(*(torch.randn(size, generator=_MAKE) for size in sizes))


_ASKED = ((64, False), (64, True), (16, False), (16, True))


def _verdict(outcomes):
    """Return what is wrong with the first measurement that is."""
    for (d_k, scaled), outcome in zip(_ASKED, outcomes, strict=True):
        if outcome.error:
            words = f"variance_of_dots({d_k}, {scaled}) stops with {outcome.error}: {outcome.message}"
            return Fault("raises", words, "Which shapes meet on that line?")
        if not isinstance(outcome.value, (int, float)) and getattr(outcome.value, "numel", int)() != 1:
            words = "One number is promised: the variance of all dot products together."
            return Fault("wrong-type", words, "How many numbers do you return?")
    said = [float(outcome.value) for outcome in outcomes]
    if said == [1.0 if scaled else d_k for d_k, scaled in _ASKED]:
        words = "These are the numbers of the theory: no measurement hits them exactly."
        return Fault("not-measured", words, "Which random pairs does your number come from?")
    found = (_off(it, *asked) for it, asked in zip(said, _ASKED, strict=True))
    return next((fault for fault in found if fault), None)


def _off(said, d_k, scaled):
    """Return what is wrong with one measured variance; with 4096 pairs it is right to about 5 percent."""
    due = 1.0 if scaled else float(d_k)
    if math.isclose(said, due, rel_tol=0.2):
        return None
    summary = f"variance_of_dots({d_k}, scaled={scaled}) is {said:.4g}; about {due:g} is due."
    drawn = "What are the mean and the variance of the numbers that you draw?"
    other = "scale-missing" if scaled else "scale-always-on"
    known = [
        (other, d_k if scaled else 1.0, "What does `scaled` change?"),
        ("scale-not-rooted", due / d_k, "When scores are divided by c, by what is their variance divided?"),
        ("deviation-not-variance", math.sqrt(due), "What is the square of your number?"),
        ("inputs-not-unit-variance", due * 7 / 144, drawn),  # uniform in 0 ... 1: 1/9 - 1/16
        ("inputs-not-unit-variance", due / 9, drawn),  # uniform in -1 ... 1
        ("sum-not-variance", due * 4095, "What is a sum divided by to become a mean?"),
    ]
    for name, number, question in known:
        if math.isclose(said, number, rel_tol=0.2):
            return Fault(name, summary, question, ("var", "std", "mean"))
    if abs(said) < math.sqrt(due) / 20:
        return Fault("mean-not-variance", summary, "Does a mean say how far numbers spread?", ("mean",))
    return Fault("wrong-values", summary, "Of how many dot products is it the variance?")


PARTS = (
    Computes(
        "scaled_scores",
        scaled_scores,
        [
            _given(1, t_q=2, t_k=3, d=4),
            _given(2, t_q=3, t_k=2, d=5),
            _given(t_q=5, t_k=5, d=2),
            _given(2, 3, t_q=4, t_k=3, d=64),
        ],
        [
            scale_missing,
            scale_not_rooted,
            scale_inverted,
            scale_wrong_width,
            scale_counts_keys,
            scale_constant,
            cosine_in_place_of_scale,
            scale_measured,
            scores_transposed,
            softmax_applied,
        ],
    ),
    Behaves(
        "variance_of_dots",
        [Given(d_k, scaled) for d_k, scaled in _ASKED],
        _verdict,
        "variance_of_dots measures about d_k before the scale, and about 1 after it",
    ),
)
