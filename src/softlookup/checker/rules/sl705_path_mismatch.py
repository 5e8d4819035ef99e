"""Two paths of the same code disagree: the fused and the manual one, or the output and the weights beside it.

Missed because: each run takes one path; tests ask for weights, training does not.

Training: the maps that are looked at are not the ones that were used, or results change with a flag.

Ask: which step do the two paths not share?

Fix: give both paths the same scale, mask and order of steps: compute one from the other where possible.

Seen in: https://github.com/lucidrains/x-transformers/issues/190,
https://github.com/pytorch/pytorch/issues/86120, https://github.com/pytorch/pytorch/issues/97111,
https://github.com/karpathy/nanoGPT/issues/331, https://github.com/keras-team/keras/issues/23038
"""

from collections.abc import Callable

import torch
from torch import Tensor

from softlookup.attention import STEPS
from softlookup.checker.evidence import Evidence, Judgement, Observation, same
from softlookup.terms import Case

LINE = ("parting", "normalize", "hide", "scale")
FOLLOWS_OTHERS = True
EXPLAINS = "two paths"


def judge(evidence: Evidence) -> Judgement | None:
    if not evidence.repeats:
        return None  # not even one path agrees with itself
    first: dict[str, Observation] = {}
    for seen in evidence.probes("path-"):  # "path-KIND-NAME": the same case through several paths
        twin = first.setdefault("-".join(seen.probe.split("-")[:2]), seen)
        if (
            seen.output is not None
            and twin.output is not None
            and not _same(seen.output, twin.output, seen, twin)
        ):
            return Judgement({"paths": [twin.probe, seen.probe]}, seen_in=seen)
        if (shorter := _of_another_shape(evidence, seen, twin)) is not None:
            text = "Two paths of the same code answer in different shapes."
            return Judgement({"paths": [twin.probe, seen.probe]}, summary=text, seen_in=shorter)
    for seen in evidence.observations:
        if _weights_of_another_lookup(evidence, seen):
            text = "The returned weights are not those that made the output."
            return Judgement({"probe": seen.probe}, summary=text, seen_in=seen)
    return None


def _of_another_shape(evidence: Evidence, one: Observation, other: Observation) -> Observation | None:
    """Return the one whose answer is no output for its tokens, where its path gives one without a mask."""
    if (one.output is None) == (other.output is None):
        return None
    odd = one if one.output is None else other
    plain = evidence.probe("path-plain-" + odd.probe.split("-", 2)[2])
    readable = plain is not None and plain.output is not None
    return odd if odd.failure is None and readable else None


def _weights_of_another_lookup(evidence: Evidence, seen: Observation) -> bool:
    case, weights = seen.case, seen.weights
    coarse = case.q.dtype.itemsize < 4 and seen.probe not in {"plain", "square", "masked", "causal"}
    if seen.output is None or weights is None or coarse:  # large scores in half precision: rounding decides
        return False
    output, expected = evidence.steps(case)
    if weights.shape != expected.shape or seen.output.shape != output.shape:
        return False
    rows = weights[seen.real_rows].double()
    is_a_map = bool((rows >= 0).all()) and torch.allclose(
        rows.sum(dim=-1), rows.new_ones(()), rtol=1e-3 if weights.dtype.itemsize >= 4 else 3e-2
    )
    return is_a_map and _same(seen.output, output, seen) and not _same(weights, expected, seen)


def _same(a: Tensor | None, b: Tensor | None, *seen: Observation) -> bool:
    """Compare the rows that are real in every one of these observations."""
    if a is None or b is None:
        return a is b
    real = torch.stack([one.real_rows for one in seen]).all(dim=0)
    return same(a[real], b[real])


def mutant() -> Callable[..., tuple[Tensor, Tensor]]:
    def attend(
        q: Tensor, k: Tensor, v: Tensor, allowed_mask: Tensor | None = None, is_causal: bool = False
    ) -> tuple[Tensor, Tensor]:
        output = STEPS(Case(q, k, v, allowed_mask, causal="top-left" if is_causal else None))[0]
        return output, (q @ k.transpose(-2, -1)).softmax(dim=-1)  # for the plot: no scale, no mask

    return attend
