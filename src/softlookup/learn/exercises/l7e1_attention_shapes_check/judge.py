"""A file that checks attention.

Goal: Write `check(q, k, v, output, weights)` with four assertions: shapes, sums of rows, no weight on the
future, and the output of `F.scaled_dot_product_attention`. It
returns "attention invariants passed" when all of them hold.

Checks: It is given right answers, which must pass, and answers that are broken on purpose in one way each,
every one of which must trip an assertion.

Ask: For each of the four facts: which broken answer would pass if just this assertion were missing?

Hint: `assert condition, words` stops with an AssertionError where the condition is False. A condition must be
one truth: a tensor of many booleans becomes one with `.all()`.

Hint: Rows run along the last axis: that is the one to sum over. `weights.triu(1)` keeps what lies above the
diagonal, and 0 elsewhere.

Hint: `torch.allclose(a, b, atol=...)` compares with a tolerance and stretches shapes that do not fit, so it
does not replace the first fact. Compare shapes with `==`.
"""

import math

import torch
from torch.nn.functional import scaled_dot_product_attention as fused_attention

from softlookup.learn.mistakes import shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Computes

KIND = "write"
AS_GIVEN = "not-written"


def _facts(q, k, v, output, weights):
    """Return (name, whether it holds) of every fact; what cannot be computed does not hold."""
    B, H, T, _ = q.shape
    fused = fused_attention(q, k, v, is_causal=True)
    sums = weights.sum(-1)
    return {
        "output shape": output.shape == q.shape,
        "weights shape": weights.shape == (B, H, T, T),
        "rows": torch.allclose(sums, torch.ones_like(sums), atol=1e-5),
        "future": bool((weights.triu(1) == 0).all()),
        "fused": output.shape[-1] == q.shape[-1] and torch.allclose(output, fused, atol=1e-6),
    }


def check(q, k, v, output, weights):
    assert all(_facts(q, k, v, output, weights).values())
    return "attention invariants passed"


def _without(*names):
    """Return the check without some of its facts, or with others in their place."""

    def incomplete(*given):
        facts = _facts(*given)
        assert all(holds for name, holds in facts.items() if name not in names)
        return "attention invariants passed"

    return incomplete


def nothing_asserted(q, k, v, output, weights):
    """Every answer passes: nothing is asserted.

    Ask: Does `assert` see a truth here, or a pair in brackets, which is always true?
    """
    return "attention invariants passed"


def output_shape_unchecked(q, k, v, output, weights):
    """An output with another shape passes.

    Ask: Does the comparison with a right answer mind the shape, or does it stretch one sample over all?
    """
    return _without("output shape")(q, k, v, output, weights)


def weights_shape_unchecked(q, k, v, output, weights):
    """Weights with another shape pass: one map for all samples, or for all heads.

    Ask: Which four numbers is the shape of the weights due to have?
    """
    return _without("weights shape")(q, k, v, output, weights)


def shapes_unchecked(q, k, v, output, weights):
    """Output and weights with other shapes pass.

    Ask: Which shapes are due, and which of your lines compares with them?
    """
    return _without("output shape", "weights shape")(q, k, v, output, weights)


@shown_at("sum", "mean", "einsum")
def rows_unchecked(q, k, v, output, weights):
    """Rows that do not sum to one pass.

    Ask: Somebody scales the weights that are returned by one half: which of your lines notices?
    """
    return _without("rows")(q, k, v, output, weights)


@shown_at("sum", "mean", "einsum")
def only_mean_of_rows_checked(q, k, v, output, weights):
    """Only the mean of the sums is looked at: one row has too much, another too little, and it passes.

    Ask: One row sums to 1.5 and another to 0.5: what does your line say?
    """
    _without("rows")(q, k, v, output, weights)
    assert math.isclose(weights.sum(-1).mean(), 1, abs_tol=1e-5)
    return "attention invariants passed"


@shown_at("sum", "mean", "einsum")
def columns_checked(q, k, v, output, weights):
    """It is the columns that are summed, so right answers are refused.

    Ask: Who hands out one unit of attention: a query (row) or a key (column)?
    """
    _without("rows")(q, k, v, output, weights)
    assert ((weights.sum(-2) - 1).abs() < 1e-5).all()
    return "attention invariants passed"


@shown_at("sum", "mean", "einsum")
def no_tolerance_for_sums(q, k, v, output, weights):
    """Sums are compared exactly, so right answers are refused: sums of float numbers are rounded.

    Ask: What does Python say to `0.1 + 0.2 == 0.3`?
    """
    check(q, k, v, output, weights)
    assert (weights.sum(-1) == 1).all()
    return "attention invariants passed"


@shown_at("triu", "tril")
def future_unchecked(q, k, v, output, weights):
    """Weight on the future passes.

    Ask: The output can be right while the weights that are returned look ahead: which of your lines notices?
    """
    return _without("future")(q, k, v, output, weights)


@shown_at("triu", "tril")
def traces_on_future_pass(q, k, v, output, weights):
    """A trace of weight on the future passes.

    Ask: A score that is hidden with -inf gets a weight of what, exactly?
    """
    _without("future")(q, k, v, output, weights)
    assert weights.triu(1).abs().max() < 1e-5
    return "attention invariants passed"


@shown_at("triu", "tril")
def own_key_forbidden(q, k, v, output, weights):
    """The diagonal counts as future, so right answers are refused.

    Ask: May the first query look anywhere, by your rule?
    """
    assert (weights.triu() == 0).all()
    return "attention invariants passed"


@shown_at("scaled_dot_product_attention")
def fused_call_unchecked(q, k, v, output, weights):
    """A wrong output passes as long as the weights look right.

    Ask: The weights are perfect and mix the wrong values: which of your lines notices?
    """
    return _without("fused")(q, k, v, output, weights)


@shown_at("scaled_dot_product_attention")
def compared_without_causality(q, k, v, output, weights):
    """The fused call that it is compared with sees the future, so right answers are refused.

    Ask: What does the fused call do, if nobody tells it about the future?
    """
    assert torch.allclose(output, fused_attention(q, k, v), atol=1e-6)
    return "attention invariants passed"


@shown_at("scaled_dot_product_attention")
def too_much_tolerance(q, k, v, output, weights):
    """Outputs that are one percent off pass.

    Ask: How far apart are two right answers in float32, and how far is a scale that is slightly wrong?
    """
    _without("fused")(q, k, v, output, weights)
    fused = fused_attention(q, k, v, is_causal=True)
    assert torch.allclose(output.expand_as(fused), fused, atol=1e-2, rtol=1e-2)
    return "attention invariants passed"


def another_error(q, k, v, output, weights):
    """Something else than an AssertionError is raised.

    Ask: Which word of Python raises it for you?
    """
    if not all(_facts(q, k, v, output, weights).values()):
        raise ValueError
    return "attention invariants passed"


_MAKE = torch.Generator().manual_seed(123)


def _answered(B, H, T, d_head):
    q, k, v = torch.randn(3, B, H, T, d_head, generator=_MAKE).unbind(0)
    return q, k, v, *_answer(q, k, v)


def _answer(q, k, v, hidden=-math.inf):
    T = q.size(-2)
    scores = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5
    weights = scores.masked_fill(torch.ones(T, T).triu(1).bool(), hidden).softmax(-1)
    return weights @ v, weights


def _of(q, k):
    q, k = q[None, None], k[None, None]
    v = torch.randn(q.shape, generator=_MAKE)
    return q, k, v, *_answer(q, k, v)


def _but(answered, output=None, weights=None):
    """Return a call with an answer that is broken in one way."""
    q, k, v, right, its = answered
    return Given(q, k, v, right if output is None else output, its if weights is None else weights)


_PLAIN = _answered(1, 1, 3, 2)
_LARGE = _answered(2, 3, 6, 4)
_SAME = tuple(it[:1].expand(2, -1, -1, -1).contiguous() for it in _answered(1, 2, 4, 4))  # two equal samples
_ALIKE = tuple(it[:, :1].expand(-1, 3, -1, -1).contiguous() for it in _answered(2, 1, 4, 4))  # equal heads
# Right answers in which a check that is too strict still finds nothing.
_ONE_TOKEN = _answered(1, 1, 1, 2)
_OWN_KEY = _of(30 * torch.eye(3), torch.eye(3))  # every query looks at its own key only
_NEARLY = _of(math.sqrt(3) * 17 * torch.eye(3), torch.eye(3))  # ... and has a trace of weight on the past
_EVEN = _of(torch.zeros(2, 2), torch.eye(2))  # weights 1; 1/2, 1/2
_FAR = _of(torch.eye(2), torch.tensor([[0.0, 0], [-300, 0]]))  # future keys would get nothing anyway
_WEAK = _answer(_LARGE[0], _LARGE[1], _LARGE[2], hidden=-5.0)
_TILTED = _PLAIN[4] * torch.tensor([1.0, 1.5, 0.5])[:, None]
_TRACE = _PLAIN[4] + 1e-7 * torch.ones(3, 3).triu(1)
_AHEAD = _PLAIN[4] @ torch.tensor([[0.9, 0.1, 0], [0, 1, 0], [0, 0, 1]])  # rows still sum to one

PARTS = (
    Computes(
        "check",
        check,
        [
            Given(*_PLAIN),
            Given(*_LARGE),
            Given(*_SAME),
            *(Given(*it) for it in (_ONE_TOKEN, _OWN_KEY, _NEARLY, _EVEN, _FAR)),
            _but(_PLAIN, weights=_PLAIN[4] / 2),
            _but(_PLAIN, weights=_TILTED),
            _but(_PLAIN, weights=_AHEAD),
            _but(_PLAIN, weights=_TRACE),
            _but(_PLAIN, output=_PLAIN[4] @ _PLAIN[1]),
            _but(_PLAIN, output=_PLAIN[3] * 1.001),
            _but(_LARGE, *_WEAK),
            _but(_SAME, output=_SAME[3][:1]),
            _but(_SAME, weights=_SAME[4][:1]),
            _but(_ALIKE, weights=_ALIKE[4][:, :1]),
        ],
        [
            nothing_asserted,
            output_shape_unchecked,
            weights_shape_unchecked,
            shapes_unchecked,
            rows_unchecked,
            only_mean_of_rows_checked,
            columns_checked,
            no_tolerance_for_sums,
            future_unchecked,
            traces_on_future_pass,
            own_key_forbidden,
            fused_call_unchecked,
            compared_without_causality,
            too_much_tolerance,
            another_error,
        ],
    ),
)
