"""The steps of attention, run again over some rows of a map, each intervention doing its own otherwise.

Steps run in the order of attention: all ``visible``, then all ``score``, the softmax, then all ``normalize``.
Within a step, interventions run in the order in which they were given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softlookup.experiments.intervention import At
from softlookup.live.products import Part
from softlookup.live.record import Call
from softlookup.terms import SoftlookupError

#: The steps that make weights.
WEIGHT_STEPS = ("visible", "score", "normalize")


class Placed(NamedTuple):
    """An intervention, and where it acts in the call at hand."""

    intervention: Any
    at: At

    def has(self, *steps: str) -> bool:
        """Say whether it replaces one of these steps."""
        return any(hasattr(self.intervention, it) for it in steps)


class Rows(NamedTuple):
    """Rows of a map before the softmax.

    scores: [S, h, n, T_k];  allowed: bool, the same;  sinks: [S, h, n, 1] a score beside those of the keys
    """

    scores: Tensor
    allowed: Tensor
    sinks: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Changed:
    """The same rows, done otherwise.

    scores, allowed, weights: [S, h, n, T_k];  touched: bool [S, h, n] the rows that are not as they were
    replaced: bool [S, h, n] those of them whose weights are not the softmax of their scores
    """

    part: Part
    scores: Tensor
    allowed: Tensor
    weights: Tensor
    touched: Tensor
    replaced: Tensor

    def index(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return what picks the touched rows out of a tensor [B, H, T_q, ...]."""
        sample, head, query = self.touched.nonzero(as_tuple=True)
        return self.part.samples[sample], self.part.heads[head], self.part.queries[query]


def part_of(placed: Sequence[Placed]) -> Part:
    """Return the smallest part of a call in which all these interventions act."""
    return Part(
        *(
            torch.cat([getattr(it.at, name) for it in placed]).unique()  # type: ignore[no-untyped-call]
            for name in ("samples", "heads", "queries")
        )
    )


def run_steps(part: Part, rows: Rows, placed: Sequence[Placed]) -> Changed:
    """Run the steps over some rows of a call.

    A row in which nothing changes is not touched, nor is one that saw no key and sees none now.

    Raises: SoftlookupError for a step that returns a tensor of another shape, and whatever steps raise.
    """
    allowed, scores = rows.allowed, rows.scores
    touched = torch.zeros(allowed.shape[:3], dtype=torch.bool, device=allowed.device)
    for it in placed:
        if it.has("visible"):
            allowed = _replaced("visible", it, part, allowed)
    for it in placed:
        if it.has("score"):
            scores = _replaced("score", it, part, scores, allowed)
            touched = touched.index_put(_within(part, it.at), torch.ones_like(touched[:1, 0, 0]))
    weights = softmax(scores, allowed, rows.sinks)
    replaced = torch.zeros_like(touched)
    for it in placed:
        if it.has("normalize"):
            weights = _replaced("normalize", it, part, weights, allowed)
            replaced = replaced.index_put(_within(part, it.at), torch.ones_like(touched[:1, 0, 0]))
    weights = _without(rows.allowed & ~allowed, weights)
    touched = touched | replaced | (allowed != rows.allowed).any(dim=-1)
    touched = touched & (allowed | rows.allowed).any(dim=-1)
    return Changed(part, scores, allowed, weights, touched, replaced)


def softmax(scores: Tensor, allowed: Tensor, sinks: Tensor | None = None) -> Tensor:
    """Return the weights [..., T_k]: hidden keys get exactly 0, and so does a row without keys."""
    empty = ~allowed.any(dim=-1, keepdim=True)
    visible = scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)
    if sinks is not None:
        visible = torch.cat([visible, sinks.to(visible.dtype)], dim=-1)
    return visible.softmax(dim=-1)[..., : scores.shape[-1]].masked_fill(~allowed, 0.0)


def mixed_otherwise(placed: Placed, outputs: Tensor) -> Tensor:
    """Return what heads found [S, h, n, d_v] as an intervention mixes it.

    Raises: SoftlookupError where it returns a tensor of another shape.
    """
    return _checked("mix", placed, placed.intervention.mix(placed.at, outputs), outputs)


def _replaced(step: str, placed: Placed, part: Part, block: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Put what a step makes of its rows in their place. block: [S, h, n, T_k] of the whole part"""
    where = _within(part, placed.at)
    at = placed.at if allowed is None else placed.at.seeing(allowed[where])
    given = block[where]
    made = _checked(step, placed, getattr(placed.intervention, step)(at, given), given)
    return made if made.shape == block.shape else block.index_put(where, made)


def _within(part: Part, at: At) -> tuple[Tensor, Tensor, Tensor]:
    """Where the rows of an intervention stand in the block of a part."""
    sample, head, query = (
        torch.searchsorted(whole, some)
        for whole, some in zip(part, (at.samples, at.heads, at.queries), strict=True)
    )
    return sample[:, None, None], head[:, None], query


def _checked(step: str, placed: Placed, made: Any, given: Tensor) -> Tensor:
    if not isinstance(made, Tensor) or made.shape != given.shape:
        raise SoftlookupError(
            f"{placed.intervention!r}: its `{step}` returned something else than it was given.",
            expected=f"a tensor {list(given.shape)}",
            got=f"shape {list(made.shape)}" if isinstance(made, Tensor) else type(made).__name__,
        )
    return made.to(given.dtype)


def _without(removed: Tensor, weights: Tensor) -> Tensor:
    """Keep hidden what was hidden, also in a map that was put in place: its other weights get the share."""
    lost = weights.masked_fill(~removed, 0.0).sum(dim=-1, keepdim=True)
    if not bool((lost != 0).any()):
        return weights
    kept = weights.masked_fill(removed, 0.0)
    left = kept.sum(dim=-1, keepdim=True)
    again = kept * ((left + lost) / left.masked_fill(left == 0, 1.0))
    return torch.where(lost != 0, again, weights)


def call_of(sizes: tuple[int, int, int, int, int], known: dict[str, Any]) -> Call:
    """Return the words of a call. sizes: B, H, H_kv, T_q, T_k;  known: layer, number, way, training, cross"""
    batch, heads, kv_heads, q_len, k_len = sizes
    cross = known.pop("cross")
    kind: Any = "cross" if cross else "cached" if q_len < k_len else "self"
    return Call(
        step=0,
        kind=kind,
        batch_size=batch,
        num_heads=heads,
        num_kv_heads=kv_heads,
        q_len=q_len,
        k_len=k_len,
        **known,
    )
