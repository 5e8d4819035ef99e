"""Find it: numbers between 0 and 1.

Goal: This attention has one bug. Name its rule in `BUG`, then mend the code.

Checks: `BUG`, and that the code is attention without a finding.

Ask: Add up a row of the weights, and then a column. Which sum should be one?

Hint: Print `weights.sum(-1)` and `weights.sum(-2)`.

Hint: There is one query in each row; each query hands out one unit of attention among the keys.

Hint: Look at the `dim` of the softmax, and compare the pages that `softlookup rules` lists under SL21.
"""

from softlookup.learn.planted import Planted
from softlookup.terms import Contract

KIND = "find"
AS_GIVEN = "softmax-over-queries"

PARTS = (Planted("attend", AS_GIVEN, Contract(layout="B H T d", mask="allowed")),)
