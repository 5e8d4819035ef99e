"""The padding mask is applied to query rows: padded queries are hidden, padded keys stay visible.

Missed because: `(B, 1, T, 1)` and `(B, 1, 1, T)` both broadcast, and the map shows a masked band either way.

Training: real tokens keep attending to padding, so their output changes with the padding of the batch.

Ask: which axis of the scores belongs to the keys, and which one does this mask run along?

Fix: put the mask on the key axis: `allowed_mask[:, None, None, :]`.

Seen in: https://github.com/hyunwoongko/transformer/pull/40,
https://github.com/lsdefine/attention-is-all-you-need-keras/issues/16
"""

from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("spread", "mask scores", "hide", "visible")


def visible(case: Case) -> Tensor | None:
    if case.allowed_mask is None or case.allowed_mask.dim() < 2:
        return all_rules(case)
    return all_rules(case.but(allowed_mask=case.allowed_mask.transpose(-2, -1)))
