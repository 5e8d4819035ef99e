"""How fast what is measured moves with each weight of a row: gradients through the weights themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from softlookup.experiments.intervening import intervene
from softlookup.experiments.intervention import At
from softlookup.experiments.metrics import Metric
from softlookup.experiments.one_input import Input


@dataclass(frozen=True, eq=False, repr=False)
class AddedToRow:
    """The intervention: ``added`` [T_k], zeros that gradients are asked of, on the weights of one row."""

    layer: str
    head: int
    query: int
    added: Tensor

    def __repr__(self) -> str:
        return f"the row of query {self.query}, head {self.head}"

    def normalize(self, at: At, weights: Tensor) -> Tensor:
        """Add to the weights of the row. weights: [1, 1, 1, T_k]"""
        return weights + self.added.to(weights)


def row_slopes(model: nn.Module, given: Input, row: AddedToRow, metric: Metric, seed: int) -> Tensor | None:
    """Return float64 [T_k]: the slope of what is measured along each weight of a row; None without one.

    A distance is flat where nothing is changed. There, the slopes of what moves with it are taken, and the
    root of their mean square, which says how fast it starts to grow.
    """
    with torch.enable_grad():
        with intervene(model, row):
            output = given.run(model)
        try:
            found = [_slope(it, row.added) for it in _numbers(output, given, metric, seed)]
        except RuntimeError:  # a metric of the user that leaves torch
            return None
    if not found or any(it is None for it in found):
        return None
    slopes = torch.stack([it for it in found if it is not None])
    return slopes[0] if len(slopes) == 1 else (slopes**2).mean(0).sqrt()


def _numbers(output: Any, given: Input, metric: Metric, seed: int) -> list[Tensor]:
    if metric.probes is not None:
        return list(metric.probes(output, given, torch.Generator().manual_seed(seed)))
    return [] if metric.distance else [metric(output, output, given)]


def _slope(number: Tensor, added: Tensor) -> Tensor | None:
    if not number.requires_grad:
        return None
    (found,) = torch.autograd.grad(number, added, retain_graph=True, allow_unused=True)
    return None if found is None else found.double()
