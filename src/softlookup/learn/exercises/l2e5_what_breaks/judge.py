"""Predict it: one line is changed.

Goal: Fill in `PREDICTIONS`: for each of the eight changes, the name of the invariant that fails first, or
"none". Decide before you run the file; the invariants are asked from top to bottom.

Checks: Every change is made and measured; the first prediction that does not come true is shown with what
was measured.

Ask: What does the changed line do to shapes, to the sum of a row, to a single weight, and to the output?

Hint: Write the shape of every line beside it, with B = 2, T_q = 3, T_k = 5, d_k = 4, d_v = 6. A change that
does not fit these shapes fails at once.

Hint: A softmax over the last axis gives shares that sum to one, whatever scores go in, so the first three
invariants cannot see what happens before it.

Hint: Only a comparison with something known to be right sees a wrong factor in front of the softmax; and an
exponential without care sees no difference until the scores are large.
"""

import warnings
from importlib import import_module

from softlookup.learn.predicted import Measured, Predicted

KIND = "predict"
AS_GIVEN = "not-written"

#: What is handed out, run as it is: its changes and invariants are the truth.
task = import_module(f"{__package__}.task")


def _measured(change):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of .T, and that would tell something
        return [Measured(*it) for it in task.measured(change)]


PARTS = (
    Predicted(
        "PREDICTIONS",
        tuple(task.CHANGES),
        tuple(task.INVARIANTS),
        _measured,
        {
            "no-scale": "What must the numbers that go into a softmax be, so that a row of it sums to one?",
            "softmax-over-dim-2": "Which axis is -2 in (B, T_q, T_k), and along which axis does a row run?",
            "no-softmax": "What values can a dot product have, and what do several of them sum to?",
            "dot-T": "What does .T do to three axes, and can (2, 3, 4) be multiplied with that?",
            "exp-by-hand": "What is exp(1000) in float32, and what is infinity divided by infinity?",
            "divided-by-sum": "What becomes of a negative score when the row is divided by its sum?",
            "keys-mixed": "How many columns do the keys have, and how many are promised for the output?",
            "einsum": "Which letter is summed over, and which product of matrices is that?",
        },
    ),
)
