"""A sample's output depends on its neighbours in the batch.

Missed because: every sample alone is right, and a batch of one hides it.

Training: validation scores depend on the batch size and order; one sample's labels can leak into another.

Ask: in which line do numbers of different samples meet?

Fix: take statistics within a sample: no mean, maximum or norm over dim 0 inside the layer.

Seen in: none of the collected reports as such; by swapped axes in
https://github.com/gazelle93/Transformer-Various-Positional-Encoding/issues/1
"""

from collections.abc import Callable

import torch
from torch import Tensor

from softlookup.checker.evidence import Evidence, Judgement, Observation, same
from softlookup.terms import Case

LINE = ("over samples", "samples folded", "score", "mix")
FOLLOWS_OTHERS = True
EXPLAINS = "every output"


def around(run: Callable[[Case], tuple[Tensor, Tensor]], case: Case) -> tuple[Tensor, Tensor]:
    if case.v.dim() < 3:
        return run(case)
    return run(case.but(v=case.v - case.v.mean(dim=0, keepdim=True)))  # a norm over the wrong axis


def judge(evidence: Evidence) -> Judgement | None:
    """Sample 0 is the same in two probes, its neighbours are not: its output may not move."""
    other = evidence.probe("neighbours")
    one = (
        None
        if other is None
        else next((s for s in evidence.observations if s.probe != "strided" and _twins(s, other)), None)
    )
    if one is None or other is None or one.output is None or other.output is None:
        return None
    real = one.real_rows[0]
    if _same(one.output[0][real], other.output[0][real]):
        return None
    if not _same(evidence.steps(one.case)[0][0][real], evidence.steps(other.case)[0][0][real]):
        return None  # the named bug explains it
    moved = float((one.output[0][real] - other.output[0][real]).abs().max())
    return Judgement({"sample 0 moves by": moved}, seen_in=other)


def _twins(one: Observation, other: Observation) -> bool:
    """Say whether sample 0 was asked the same in both."""
    a, b = one.case, other.case
    if (
        one is other
        or a.q.dtype != b.q.dtype
        or (a.causal, a.window, a.scale) != (b.causal, b.window, b.scale)
    ):
        return False
    if not all(torch.equal(getattr(a, name)[0], getattr(b, name)[0]) for name in ("q", "k", "v")):
        return False
    if a.allowed_mask is None or b.allowed_mask is None:
        return a.allowed_mask is b.allowed_mask
    return torch.equal(a.allowed_mask[0], b.allowed_mask[0])


def _same(a: Tensor, b: Tensor) -> bool:
    return same(a, b)
