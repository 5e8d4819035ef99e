"""Find it: a gradient where none should be.

Goal: This attention has one bug. Name its rule in `BUG`, then mend the code.

Checks: `BUG`, and that the code is attention without a finding.

Ask: The gradient of a value is the sum of the weights that it got. What weight does a hidden key get here?

Hint: Run the file and look at the last two numbers of each line, then print the weights of the hidden keys.

Hint: A softmax gives every key a share, however low its score is, unless exp(score) is 0. Compare exp(-9)
with the exp of a score that large queries can reach, such as -12.

Hint: Look at the number that hidden scores get, and compare the pages of SL105 to SL110 of
`softlookup rules`.
"""

from softlookup.learn.planted import Planted
from softlookup.terms import Contract

KIND = "find"
AS_GIVEN = "mask-fill-too-weak"

PARTS = (Planted("attention", AS_GIVEN, Contract(layout="B H T d", mask="allowed", causal="none")),)
