"""Find it: heads that lost their tokens.

Goal: This layer has one bug. Name its rule in `BUG`, then mend the code.

Checks: `BUG`, and that the layer is causal self-attention without a finding.

Ask: In which order do the numbers of two heads lie in memory, and in which order should one token have
them?

Hint: Run the file: only the last token was changed. Which outputs may move in a causal layer, and which do?

Hint: A copy keeps the order in which a tensor is read. What is the order of the axes when the copy is made?

Hint: Compare the line with your solution of 5.2, and then the pages under SL30 of `softlookup rules`.
"""

from softlookup.learn.planted import Planted
from softlookup.terms import Contract

KIND = "find"
AS_GIVEN = "heads-merged-by-view"

PARTS = (
    Planted(
        "CausalSelfAttention",
        AS_GIVEN,
        Contract(mask="none", causal="built-in"),
        {"n_embd": 24, "n_head": 3},
    ),
)
