"""A row that may look nowhere returns NaN: the softmax of only -inf is 0 / 0.

Missed because: it needs a fully padded sample, or padding on the left of a causal batch.

Training: one NaN row in a batch makes the loss NaN, or reaches everything through the next layer.

Ask: what is the sum of the exponentials of a row that holds only -inf?

Fix: decide what such a row returns: `weights.masked_fill(~allowed_mask.any(-1, keepdim=True), 0.0)`.

Seen in: https://github.com/pytorch/pytorch/issues/103749, https://github.com/pytorch/pytorch/issues/103963,
https://github.com/dmlc/dgl/issues/2657, https://github.com/nari-labs/dia/pull/252,
https://github.com/pytorch/pytorch/issues/41508
"""

import math
from collections.abc import Callable

from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.checker.evidence import Evidence, Judgement
from softlookup.terms import Case

LINE = ("last divide", "normalize", "hide")
FOLLOWS_OTHERS = True


def judge(evidence: Evidence) -> Judgement | None:
    """A note, unless the contract declares another answer for such rows."""
    contract = evidence.contract
    for seen in evidence.probes("empty-row"):
        empty = ~seen.real_rows  # [B, H, T_q]
        if seen.output is not None and empty.any() and seen.output[empty].isnan().all():
            wrong = contract.declares("empty_rows") and contract.empty_rows != "nan"
            return Judgement({"probe": seen.probe, "rows": int(empty.sum())}, wrong=wrong, seen_in=seen)
    return None


def mutant() -> Callable[..., Tensor]:
    def attend(
        q: Tensor, k: Tensor, v: Tensor, allowed_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        allowed = all_rules(Case(q, k, v, allowed_mask, causal="top-left" if is_causal else None))
        scores = scores if allowed is None else scores.masked_fill(~allowed, -math.inf)
        return scores.softmax(dim=-1) @ v

    return attend
