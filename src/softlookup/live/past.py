"""What the alarms remember of each layer: a few numbers of its last calls, and what was said already."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import torch
from torch import Tensor

from softlookup.live.record import Record
from softlookup.statistics.summary import Statistics

_KEPT = 64  # calls of a layer


def entropy_fraction(statistics: Statistics) -> Tensor:
    """[H]: mean entropy as a share of mean log(visible keys), the most it can be; NaN where that is 0.

    log(visible keys) is what lies between the two bounds of the largest score.
    """
    moments = statistics.moments
    most = (moments["lse"].mean - moments["max_score_at_least"].mean)[0]
    return torch.where(most > 1e-6, moments["entropy_nats"].mean[0] / most, torch.nan)


@dataclass
class LayerPast:
    """One layer, and one number of call in a step: tensors of [H] and steps, oldest first."""

    steps: deque[int] = field(default_factory=lambda: deque(maxlen=_KEPT))
    max_scores: deque[Tensor] = field(default_factory=lambda: deque(maxlen=_KEPT))
    collapsed: Tensor | None = None  # int64 [H]: calls in a row
    said: set[tuple[str, int | None]] = field(default_factory=set)


class Past:
    """What was seen of each layer so far."""

    def __init__(self) -> None:
        self._layers: dict[tuple[str, int], LayerPast] = {}
        self.not_finite_since: int | None = None  # step in which NaN or inf was first met

    def of(self, record: Record) -> LayerPast:
        """Return what is remembered of the layer of a record."""
        return self._layers.setdefault((record.call.layer, record.call.number), LayerPast())

    def remember(self, record: Record) -> None:
        """Keep what later calls are compared with."""
        layer = self.of(record)
        largest = record.statistics.max_score
        assert largest is not None
        layer.steps.append(record.call.step)
        layer.max_scores.append(largest[0])
