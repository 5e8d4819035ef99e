"""Find it: half of all masks are true.

Goal: This attention has one bug. Name its rule in `BUG`, then mend the code.

Checks: `BUG`, and that the code is attention without a finding.

Ask: The last key is padding. Who looks at it when you run the file, and who looks at the real ones?

Hint: Run the file: row i of what it prints shows whom query i looks at. Compare that with `real`.

Hint: What does True mean in the mask of `nn.MultiheadAttention`, and what in that of
`F.scaled_dot_product_attention`? Both pages of PyTorch's documentation say it.

Hint: Follow a single True of `allowed_mask` through the lines until it reaches the call. The rules of the
family SL1 in `softlookup rules` are about masks.
"""

from softlookup.learn.planted import Planted
from softlookup.terms import Contract

KIND = "find"
AS_GIVEN = "mask-inverted"

PARTS = (Planted("attend", AS_GIVEN, Contract(layout="B H T d", mask="allowed", causal="none")),)
