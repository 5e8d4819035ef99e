"""The q, k and v slices of one fused projection are cut in another order than its rows are said to have.

Missed because: from scratch every order trains; three slices of one size all fit.

Training: with loaded weights queries are looked up as keys or mixed as values: the layer is noise.

Fix: cut in the order of the weights: `q, k, v = self.qkv(x).chunk(3, dim=-1)`, or the permuted reshape that
the checkpoint was written with.

Seen in: https://github.com/awslabs/slapo/pull/46; harmless look-alikes: https://github.com/NVIDIA/apex/issues/1131
"""

from collections.abc import Iterator
from itertools import permutations

from torch import Tensor

from softlookup.checker.calls import Recorded
from softlookup.checker.evidence import Evidence
from softlookup.checker.projecting import project as projected
from softlookup.terms import Case

LINE = ("cut fused",)


def VARIANTS(evidence: Evidence) -> Iterator[str]:  # noqa: N802
    """Orders, where a weight holds several projections and its name says in which order."""
    wiring = evidence.wiring
    if wiring is None or not wiring.fused or not wiring.order_stated:
        return
    apart = wiring.q[0].parameter != wiring.k[0].parameter  # only keys and values share a weight
    yield from ("".join(order) for order in permutations("qkv") if order != tuple("qkv") and not apart)
    yield from ("qvk", "qkk", "qvv") if apart else ("qkk", "qvv", "kkv", "qqv")


def project(case: Case, variant: str) -> tuple[Tensor, Tensor, Tensor]:
    found = dict(zip("qkv", projected(case), strict=True))
    q, k, v = (found[role] for role in variant)
    return q, k, v


def recorded(calls: tuple[Recorded, ...]) -> bool:
    """With one fused weight, a wrong cut is likelier than a transposed product."""
    return True
