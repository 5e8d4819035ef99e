"""Find it: the hidden keys weigh nothing.

Goal: This attention has one bug. Name its rule in `BUG`, then mend the code.

Checks: `BUG`, and that the code is attention without a finding.

Ask: A query hands out one unit of attention. Who gets it when half of the keys are hidden?

Hint: Run the file and add up each row of the weights.

Hint: The first row may look at one key only. Which weight should that key have, and which one has it?

Hint: Follow one hidden score from top to bottom: is it still a number when the row is shared out? The rules
of the family SL1 in `softlookup rules` are about masks.
"""

from softlookup.learn.planted import Planted
from softlookup.terms import Contract

KIND = "find"
AS_GIVEN = "mask-after-softmax"

PARTS = (
    Planted(
        "attend",
        AS_GIVEN,
        Contract(layout="B H T d", mask="allowed", causal="none", returns="output, weights"),
        questions={
            "unrecognised": "The weights are right while scores are small. When a hidden key scores 100 "
            "more than the others, what is left of the others' shares, and what is 0 divided by 0?"
        },
    ),
)
