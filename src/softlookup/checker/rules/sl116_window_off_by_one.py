"""The sliding window shows one key more or one key fewer than declared.

Missed because: "window 4" counts keys in one library and steps back in another, and both train.

Training: small, until the window is compared with a cache or a kernel that counts otherwise; then outputs
differ.

Ask: write down the keys of one query in the middle and count them: how many were declared?

Fix: count the query itself: key j is visible when `0 <= i - j < window`.

Seen in: https://github.com/huggingface/transformers/pull/26792,
https://github.com/huggingface/transformers/issues/39408, https://github.com/ml-explore/mlx-lm/pull/390,
https://github.com/zml/zml/pull/763
"""

from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("window", "visible", "hide")
VARIANTS = (1, -1)


def visible(case: Case, variant: int) -> Tensor | None:
    return all_rules(case if case.window is None else case.but(window=case.window + variant))
