"""Find it: everybody gets the same share.

Goal: This layer has one bug. Name its rule in `BUG`, then mend the code.

Checks: `BUG`, and that the layer is self-attention without a finding.

Ask: Which steps of the lookup does the fused function do by itself, and which of them are done before it?

Hint: Run the file: the maps are flatter than the formula says. What makes a softmax flat?

Hint: Follow the numbers from the projection to the softmax and write down every factor that they meet, those
inside the fused function as well. Its documentation shows it as a few lines of Python.

Hint: What was needed when the lookup was written by hand, and is now done twice? Compare the pages under
SL20 of `softlookup rules`.
"""

from softlookup.learn.planted import Planted
from softlookup.terms import Contract

KIND = "find"
AS_GIVEN = "scale-doubled"

PARTS = (
    Planted(
        "SelfAttention",
        AS_GIVEN,
        Contract(mask="blocked", mask_shape="B T_k", causal="none"),
        {"dim": 24, "heads": 3},
    ),
)
