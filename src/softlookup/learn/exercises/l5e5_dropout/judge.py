"""Drop weights, but only in training.

Goal: Complete `DroppingAttention.forward(q, k, v)`: softmax weights, of which some are dropped in training
mode; they mix the values. Return the output and the weights that mixed it.

Checks: In evaluation mode the plain lookup, to the last digit; in training mode, over thousands of weights,
how many are 0, what became of the others, and that the output is mixed by these.

Ask: Which mode is the layer in, and who tells the dropout?

Hint: Three things can be dropped: a score, a weight, or a feature of the output. What does a 0 mean in each
place?

Hint: Look up `F.dropout` in the documentation of PyTorch: which value has its argument `training` if you do
not give it, and what becomes of the numbers that are kept?

Hint: A module knows its mode, `self.training`; `nn.Dropout` as a part of the layer is told by `train()` and
`eval()`.
"""

import math

import torch

from softlookup.learn.exercises.l5e5_dropout.dropped import DROPS, IN_TRAINING, P, Seen, attend
from softlookup.learn.mistakes import Fault, fault_of, shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Behaves, Computes

KIND = "write"
AS_GIVEN = "not-written"

_SIZE = 64  # rows and columns of a map: thousands of weights tell a probability to a few percent


def outputs_swapped(q, k, v):
    """The two results come in the other order: the output first, then the weights.

    Ask: Which of them has one entry for each pair of tokens?
    """
    return attend(q, k, v)[::-1]


@shown_at("softmax")
def softmax_over_queries(q, k, v):
    """The softmax runs over the queries.

    Ask: What do the weights of one query sum to?
    """
    weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-2)
    return weights @ v, weights


@shown_at("mul", "div", "truediv", "matmul")
def rescaled_in_evaluation(q, k, v):
    """In evaluation mode the weights are multiplied by 1 - p: their rows sum to less than one.

    Ask: Where has the factor been taken care of already?
    """
    weights = attend(q, k, v)[1] * (1 - P)
    return weights @ v, weights


@shown_at("mul", "div", "truediv", "matmul")
def divided_in_evaluation(q, k, v):
    """In evaluation mode the weights are divided by 1 - p: their rows sum to more than one.

    Ask: What is missing in evaluation mode that the division would make up for?
    """
    weights = attend(q, k, v)[1] / (1 - P)
    return weights @ v, weights


_EVALUATION_RANDOM = Fault(
    "dropout-in-eval",
    "Weights are dropped in evaluation mode as well.",
    "Who tells the dropout that training is over?",
    DROPS,
)


def _results(outcome):
    return outcome.value if isinstance(outcome.value, tuple) else (outcome.value,)


def _in_evaluation(outcomes):
    """Return the fault of zeros, where a softmax gives none."""
    tensors = [it for it in _results(outcomes[0]) if isinstance(it, torch.Tensor)]
    return _EVALUATION_RANDOM if any(bool((it == 0).any()) for it in tensors) else None


def _in_training(outcomes):
    (yours,) = outcomes
    if yours.error:
        return Fault("raises", f"In training mode it raises {yours.error}: {yours.message}", "")
    due = [it.shape for it in attend(*_TRAINING.args)]
    if [getattr(it, "shape", None) for it in _results(yours)] != due:
        return Fault("wrong-shape", "In training mode something else comes back than in use.", "")
    seen = Seen(_TRAINING, yours.value)
    fitting = [it for it in IN_TRAINING if it(seen)]
    return fault_of(fitting[0])._replace(evidence=seen.numbers()) if fitting else None


_MAKE = torch.Generator().manual_seed(7)


def _given(B, H, T, training=False):
    q, k, v = (torch.randn(B, H, T, 8, generator=_MAKE) for _ in "qkv")
    return Given(q, k, v, training=training)


_TRAINING = _given(2, 2, _SIZE, training=True)
_DROPPING = {"dropout": P}

PARTS = (
    Behaves("DroppingAttention", [_given(2, 2, 16)], _in_evaluation, "nothing is random in use", _DROPPING),
    Computes(
        "DroppingAttention",
        attend,
        [_given(1, 1, 3), _given(2, 2, 4)],
        [outputs_swapped, softmax_over_queries, rescaled_in_evaluation, divided_in_evaluation],
        _DROPPING,
    ),
    Behaves("DroppingAttention", [_TRAINING], _in_training, "weights are dropped in training", _DROPPING),
    Computes(
        "DroppingAttention",
        attend,
        [Given(*_given(1, 1, 3).args, training=True)],
        init={"dropout": 0.0},
    ),
)
