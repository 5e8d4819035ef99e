"""The caller's mask or inputs are modified in place.

Missed because: the first call is right; the second layer, or the second step, gets the changed tensor.

Training: masks tighten or inputs shrink from layer to layer, and the result depends on the order of calls.

Ask: does the caller's tensor hold the same numbers after the call as before?

Fix: work on a new tensor: `mask = mask & causal` instead of `mask &= causal`, `masked_fill` instead of
`masked_fill_`.

Seen in: https://github.com/Shujun-He/RibonanzaNet/issues/7
"""

from collections.abc import Callable

import torch
from torch import Tensor

from softlookup.attention import STEPS
from softlookup.checker.evidence import Evidence, Judgement
from softlookup.terms import Case

LINE = ("inplace", "hide", "visible", "scale")


def judge(evidence: Evidence) -> Judgement | None:
    for seen in evidence.observations:
        if seen.changed:
            names = ", ".join(seen.changed)
            return Judgement(
                {"changed": list(seen.changed), "probe": seen.probe},
                summary=f"The call changes its caller's tensors in place: {names}.",
                seen_in=seen,
            )
    return None


def mutant() -> Callable[..., Tensor]:
    def attend(
        q: Tensor, k: Tensor, v: Tensor, allowed_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        if is_causal and allowed_mask is not None and allowed_mask.shape[-2:] == (q.shape[-2], k.shape[-2]):
            allowed_mask &= torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        q *= q.shape[-1] ** -0.5
        return STEPS(Case(q, k, v, allowed_mask, causal="top-left" if is_causal else None, scale=1.0))[0]

    return attend
