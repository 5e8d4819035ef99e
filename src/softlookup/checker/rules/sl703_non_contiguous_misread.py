"""Strided inputs give another answer than their contiguous copies: memory is read past the strides.

Missed because: tests build fresh tensors, which are contiguous; models pass transposed views.

Training: tokens and heads are mixed up in whatever way the view was made, or only on one device.

Ask: the same numbers lie in memory in another order: should the answer depend on that?

Fix: copy before reading memory in order: `q = q.contiguous()`, or use the strides.

Seen in: https://github.com/pytorch/pytorch/issues/181133, https://github.com/pytorch/pytorch/issues/163597,
https://github.com/torch-spyre/torch-spyre/issues/4331, https://github.com/ROCm/pytorch/issues/3230
"""

from collections.abc import Callable

import torch
from torch import Tensor

from softlookup.attention import STEPS
from softlookup.checker.evidence import Evidence, Judgement
from softlookup.terms import Case

LINE = ("restride", "score", "mix")


def judge(evidence: Evidence) -> Judgement | None:
    for seen in evidence.probes("strided"):
        twin = evidence.probe(f"{seen.probe}-contiguous")
        if twin is None or seen.output is None or twin.output is None:
            continue
        real = seen.real_rows
        strided, contiguous = seen.output[real].double(), twin.output[real].double()
        if not torch.allclose(strided, contiguous, rtol=1e-3, atol=1e-4, equal_nan=True):
            facts = {"probe": seen.probe, "largest difference": float((strided - contiguous).abs().max())}
            return Judgement(facts, seen_in=seen)
    return None


def mutant() -> Callable[..., Tensor]:
    def in_memory_order(x: Tensor) -> Tensor:
        strides = torch.empty(x.shape, device="meta").stride()
        return x.as_strided(x.shape, strides)

    def attend(
        q: Tensor, k: Tensor, v: Tensor, allowed_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        q, k, v = in_memory_order(q), in_memory_order(k), in_memory_order(v)
        return STEPS(Case(q, k, v, allowed_mask, causal="top-left" if is_causal else None))[0]

    return attend
