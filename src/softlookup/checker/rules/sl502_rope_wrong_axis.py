"""Queries and keys are rotated by the number of their head or sample instead of their position.

Missed because: the axis has some length, broadcasting accepts it, and a query and a key of one head turn
alike, so that their product is that of no rotation at all.

Training: the model knows no order of tokens but what the causal mask shows; it trains, and stays behind.

Ask: what is the first index of the rotated tensor that says where a token stands?

Fix: rotate where the tensor has the axes that the rotation expects, or say which axis is the sequence: most
count along axis 1 of (B, T, H, d) or along axis -2 of (B, H, T, d).

Seen in: https://github.com/mlfoundations/open_lm/issues/4, https://github.com/tensorgi/TPA/issues/4,
https://github.com/facebookresearch/xformers/issues/841
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from softlookup.attention import score as dot_products
from softlookup.checker.dataflow import Dataflow
from softlookup.checker.evidence import Evidence, Judgement
from softlookup.checker.rotations import Rotation, best_rotation, likely_rotations, says_rotation, turned
from softlookup.terms import Case

LINE = ("rotation called", "rotate")
NEEDS_FORWARD = True


def VARIANTS(evidence: Evidence) -> Iterator[Rotation]:  # noqa: N802
    """By head, which shows where several query heads share a key head."""
    if says_rotation(evidence.sketch) and evidence.observations[0].case.k.shape[1] > 1:
        best = best_rotation(evidence, likely_rotations(evidence), score)
        if best is not None:
            yield best


def score(q: Tensor, k: Tensor, case: Case, variant: Rotation) -> Tensor:
    heads = torch.arange(q.shape[-3])[:, None]  # in place of positions: [H, 1]
    of_keys = heads // (q.shape[-3] // case.k.shape[-3])
    return dot_products(turned(q, variant, heads), turned(k, variant, of_keys), case)


def judge(evidence: Evidence) -> Judgement | None:
    """Queries and keys were rotated, and yet no score depends on a position."""
    seen = evidence.probe("recorded")
    plain = evidence.steps.score is dot_products and evidence.steps.assume is None
    if seen is None or not plain or not says_rotation(evidence.sketch):
        return None
    rotations = [flow for flow in Dataflow(seen).flows if flow.rotates]
    return Judgement({"rotations": len(rotations)}, seen_in=seen) if rotations else None
