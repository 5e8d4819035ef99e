"""The q, k and v slices of one fused projection are cut in another order than its rows are said to have.

Missed because: from scratch every order trains; three slices of one size all fit.

Training: with loaded weights queries are looked up as keys or mixed as values: the layer is noise.

Ask: which rows of the fused weight are the keys, and which does this line take?

Fix: cut in the order of the weights: `q, k, v = self.qkv(x).chunk(3, dim=-1)`, or the permuted reshape that
the checkpoint was written with.

Seen in: https://github.com/awslabs/slapo/pull/46; harmless look-alikes: https://github.com/NVIDIA/apex/issues/1131
"""

from collections.abc import Iterator
from itertools import permutations

import torch
from torch import Tensor

from softlookup.checker.calls import Recorded
from softlookup.checker.evidence import Evidence
from softlookup.checker.projecting import project as projected
from softlookup.checker.wiring import tokens_of
from softlookup.terms import Case

LINE = ("fused cut", "cut fused")


def VARIANTS(evidence: Evidence) -> Iterator[str]:  # noqa: N802
    """Orders, where a weight holds several projections and its name says in which; other groups of rows."""
    wiring = evidence.wiring
    if wiring is None or (wiring.fused and not wiring.order_stated):
        return
    apart = wiring.q[0].parameter != wiring.k[0].parameter  # only keys and values share a weight
    if wiring.num_kv_heads == wiring.num_heads > 1 and not (wiring.fused and apart):
        yield from _REGROUPED
    if not wiring.fused:  # three weights that the code itself fuses
        return
    yield from ("".join(order) for order in permutations("qkv") if order != tuple("qkv") and not apart)
    yield from ("qvk", "qkk", "qvv") if apart else ("qkk", "qvv", "kkv", "qqv")


def project(case: Case, variant: str) -> tuple[Tensor, Tensor, Tensor]:
    if variant in _REGROUPED:
        return _regrouped(projected(case), case.wiring.num_heads, variant)
    tokens = tokens_of(case)
    q, k, v = (tokens.projected(role, table=cut) for role, cut in zip("qkv", variant, strict=True))
    return q, k, v


_REGROUPED = ("rows of each head together, cut as q, k, v", "rows of q, k, v, cut head by head")


def _regrouped(
    parts: tuple[Tensor, Tensor, Tensor], heads: int, variant: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Lay the three [B, T, H * d] out one way and cut them the other."""
    B, T, width = parts[0].shape
    by_part = torch.stack([part.view(B, T, heads, -1) for part in parts], dim=2)  # [B, T, 3, H, d]
    if variant == _REGROUPED[0]:
        cut = by_part.transpose(2, 3).reshape(B, T, 3, width)
    else:
        cut = by_part.reshape(B, T, heads, 3, -1).transpose(2, 3).reshape(B, T, 3, width)
    q, k, v = cut.unbind(2)
    return q, k, v


def recorded(calls: tuple[Recorded, ...]) -> bool:
    """A wrong cut is likelier than a transposed product; but a piece that is never read was cut rightly."""
    read = {serial for call in calls for serial in call.reads}
    pieces = (call.writes for call in calls if len(call.writes) == 3)
    return all(serial in read for piece in pieces for serial in piece)
