"""Predict it: break it on purpose.

Goal: Fill in `PREDICTIONS`: for each of the eight changes, which of the four facts of 7.1 fails first, or
"none". Decide before you run the file; the facts are asked from top to bottom.

Checks: Every change is made and measured; the first prediction that does not come true is shown with what was
measured.

Ask: What does the changed line do to the shapes, to a row of the weights, to their upper triangle, and to the
output?

Hint: Draw the mask of each change for T = 3, and below it the weights: where are they 0, and what does each
row sum to?

Hint: A softmax over the keys makes rows that sum to one, whichever keys are hidden, unless none is left.
What comes after a softmax may spoil the sums again.

Hint: The facts about weights do not look at the values, and a hidden score keeps some weight unless it is
-inf.
"""

from importlib import import_module

from softlookup.learn.predicted import Measured, Predicted

KIND = "predict"
AS_GIVEN = "not-written"

#: What is handed out, run as it is: its changes and facts are the truth.
task = import_module(f"{__package__}.task")


def _measured(change):
    return [Measured(*it) for it in task.measured(change)]


PARTS = (
    Predicted(
        "PREDICTIONS",
        tuple(task.CHANGES),
        tuple(task.FACTS),
        _measured,
        {
            "softmax-over-dim-2": "Which of the two axes of a map hands out one unit then?",
            "tril-to-triu": "Which keys are left for the first query, and what does a softmax make of them?",
            "diagonal-hidden": "Which keys are left for the first query?",
            "diagonal-plus-one": "Which key does each query see as well, and does its row still sum to one?",
            "hidden-with-minus-9": "What is exp(-9), and is it 0?",
            "zeroed-after-softmax": "What had the hidden keys been given, and who gets it afterwards?",
            "keys-in-place-of-values": "Which fact looks at values, and do shapes tell k and v apart?",
            "mean-in-place-of-heads": "How many axes have the weights then?",
        },
    ),
)
