"""Find it: the newest tokens have forgotten.

Goal: This causal attention has one bug, which shows with a cache only. Name its rule in `BUG`, then mend the
code.

Checks: `BUG`, and that the code is causal attention without a finding, also with fewer queries than keys.

Ask: One new token, and five in the cache: how many of the six keys should it see, and how many does it see
here?

Hint: Run the file: which line differs from 0? Then print `hidden` for T_q = 1 and T_k = 6.

Hint: Query 0 of the new tokens is not token 0 of the text. Which place in the text does query i have, when
T_k - T_q tokens came before?

Hint: The triangle has a corner at which it starts. Compare where it starts with where the newest tokens
stand, and look at the pages SL101 to SL104 of `softlookup rules`.
"""

from softlookup.learn.planted import Planted
from softlookup.terms import Contract

KIND = "find"
AS_GIVEN = "causal-top-left"

PARTS = (
    Planted(
        "causal_attention",
        AS_GIVEN,
        Contract(layout="B H T d", mask="none", causal="built-in", corner="bottom-right"),
    ),
)
