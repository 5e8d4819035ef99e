"""In cross-attention the source keys are hidden by the mask of the target.

Missed because: with as many target tokens as source tokens nothing has the wrong shape, and without padding
both masks are all ones.

Training: the decoder reads padding of the source, and does not see source tokens where the target is padded.

Ask: how many keys has the memory, and how long is the mask that hides them here?

Fix: keys that come from the memory get the memory's mask: `mask = context_mask if context is given`.

Seen in: https://github.com/lucidrains/x-transformers/issues/174
"""

from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("target masked", "visible", "hide")
#: The target's mask hides keys instead of the memory's, or besides it.
VARIANTS = ("instead", "besides")


def visible(case: Case, variant: str) -> Tensor | None:
    if case.target_mask is None:
        return all_rules(case.but(allowed_mask=None) if variant == "instead" else case)
    keys = case.target_mask[:, None, None]  # [B, 1, 1, T_q], laid over T_k keys
    if variant == "besides" and case.allowed_mask is not None:
        keys = keys & case.allowed_mask
    return all_rules(case.but(allowed_mask=keys))
