"""A row that may look nowhere averages every value, hidden ones included.

Missed because: the numbers are finite and plain; with a finite fill all scores of the row are equal.

Training: a query that should know nothing reads the mean of everything it must not see.

Ask: a query that may look nowhere: which values are mixed into its output?

Fix: zero such rows after the softmax: `weights.masked_fill(~allowed_mask.any(-1, keepdim=True), 0.0)`.

Seen in: https://github.com/microsoft/onnxruntime/pull/28958
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from softlookup.attention import repeat_kv_heads as one_head_each
from softlookup.attention import visible as all_rules
from softlookup.checker.evidence import Evidence, Judgement
from softlookup.terms import Case

LINE = ("settle", "last fill", "hide")
FOLLOWS_OTHERS = True


def judge(evidence: Evidence) -> Judgement | None:
    """A note, unless the contract declares another answer for such rows."""
    contract = evidence.contract
    for seen in evidence.probes("empty-row"):
        empty = ~seen.real_rows  # [B, H, T_q]
        if seen.output is None or not empty.any():
            continue
        mean = one_head_each(seen.case.v, seen.case).double().mean(dim=-2, keepdim=True)
        mean = mean.expand(*empty.shape, mean.shape[-1])
        if seen.output.shape == mean.shape and torch.allclose(
            seen.output[empty].double(), mean[empty], 1e-2, 1e-3
        ):
            wrong = contract.declares("empty_rows") and contract.empty_rows != "uniform"
            return Judgement({"probe": seen.probe, "rows": int(empty.sum())}, wrong=wrong, seen_in=seen)
    return None


def mutant() -> Callable[..., Tensor]:
    def attend(
        q: Tensor, k: Tensor, v: Tensor, allowed_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        allowed = all_rules(Case(q, k, v, allowed_mask, causal="top-left" if is_causal else None))
        scores = scores if allowed is None else scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        return scores.softmax(dim=-1) @ v

    return attend
