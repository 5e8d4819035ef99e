"""Find it: a decoder that never reads.

Goal: This layer has one bug. Name its rule in `BUG`, then mend the code.

Checks: `BUG`, and that the layer is cross-attention without a finding.

Ask: If you replace the whole memory by zeros, what is left of the output?

Hint: In the tests of this team target and memory always had one length. Give it a target of 4 and a memory
of 7 tokens and read what torch says.

Hint: Write down for q, k and v which of the two sequences they are made of, and compare that with 4.1.

Hint: The weights may be perfect: they say how much of each value is taken. Follow the values back to where
they come from, and look for that under SL31 of `softlookup rules`.
"""

from softlookup.learn.planted import Planted
from softlookup.terms import Contract

KIND = "find"
AS_GIVEN = "cross-values-from-target"

PARTS = (
    Planted(
        "CrossAttention",
        AS_GIVEN,
        Contract(mask="allowed", mask_shape="B T_k", causal="none"),
        {"dim": 24, "heads": 3},
    ),
)
