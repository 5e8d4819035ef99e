"""A call that was answered otherwise, as others see it.

A recording or a watch inside the block reads the maps that were put in place, and not those that the model
would have made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from softlookup.experiments.stepping import Changed
from softlookup.live.door_files import Door
from softlookup.live.problem import Problem


def answered(door: Door, changed: Changed) -> Door:
    """Return the door by which a call is read with its changed rows."""

    def read(*call: Any) -> Problem | None:
        problem = door.read(*call)
        if problem is None:
            return None
        return replace(problem, rows=_with_changes(problem.rows, problem.k_len, changed))

    return replace(door, read=read)


def _with_changes(
    rows_of: Callable[[int, Tensor], tuple[Tensor, Tensor]], k_len: int, changed: Changed
) -> Callable[[int, Tensor], tuple[Tensor, Tensor]]:
    part, weights = changed.part, changed.weights.detach()
    # Weights that are no softmax of scores are the softmax of their logarithms.
    scores = torch.where(changed.replaced[..., None], weights.log(), changed.scores.detach())
    allowed = torch.where(changed.replaced[..., None], weights > 0, changed.allowed)
    rest = (1 - weights.sum(dim=-1)).clamp(min=0).log()  # [S, h, n] what a sink has of a map put in place

    def rows(sample: int, asked: Tensor) -> tuple[Tensor, Tensor]:
        found, seen = rows_of(sample, asked)
        here = (part.samples == sample).nonzero().flatten()
        if not len(here):
            return found, seen
        missing = max(0, k_len - found.shape[-1])
        found, seen = pad(found, (0, missing), value=-math.inf), pad(seen.expand_as(found), (0, missing))
        found, seen = found.clone(), seen.clone()
        one = int(here[0])
        place, query = (asked[:, None] == part.queries).nonzero(as_tuple=True)
        for number, head in enumerate(part.heads.tolist()):
            touched = changed.touched[one, number, query]
            to, of = place[touched], query[touched]
            found[head, to, :k_len] = scores[one, number, of].to(found.dtype)
            seen[head, to, :k_len] = allowed[one, number, of]
            if found.shape[-1] > k_len:
                swapped = changed.replaced[one, number, of]
                found[head, to[swapped], k_len:] = rest[one, number, of[swapped], None].to(found.dtype)
        return found, seen

    return rows
