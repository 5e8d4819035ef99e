"""A sliding window is built in: a query sees its last few keys, itself included.

Seen in: https://github.com/huggingface/transformers/pull/26792
"""

from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.terms import Case

HINTS = ("window", "local", "sliding", "band", "span")
VARIANTS = tuple((keys, ahead) for keys in (2, 3, 4, 5, 6, 8, 16) for ahead in (False, True))


def visible(case: Case, variant: tuple[int, bool]) -> Tensor | None:
    keys, ahead = variant
    return all_rules(case.but(window=keys, window_ahead=ahead) if case.window is None else case)
