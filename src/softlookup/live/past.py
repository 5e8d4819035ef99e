"""What the alarms remember of each layer: a few numbers of its last calls, and what was said already."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from torch import Tensor

from softlookup.live.record import Record

_KEPT = 64  # calls of a layer


@dataclass
class LayerPast:
    """One layer, and one number of call in a step: tensors of [H] and steps, oldest first.

    steps, max_scores: of calls in training; an evaluation in between has texts of its own
    """

    steps: deque[int] = field(default_factory=lambda: deque(maxlen=_KEPT))
    max_scores: deque[Tensor] = field(default_factory=lambda: deque(maxlen=_KEPT))
    collapsed: Tensor | None = None  # int64 [H]: calls in a row
    said: set[tuple[str, int | None]] = field(default_factory=set)


class Past:
    """What was seen of each layer so far."""

    def __init__(self) -> None:
        self._layers: dict[tuple[str, int, int], LayerPast] = {}
        self.not_finite_since: int | None = None  # step in which NaN or inf was first met
        self.waiting: Record | None = None  # its softmax gave NaN in rows without keys: does it spread?
        self.replaces_nan = False  # whether this model was seen to write something else over it

    def of(self, record: Record) -> LayerPast:
        """Return what is remembered of the layer of a record."""
        heads = record.statistics.queries.shape[1]
        return self._layers.setdefault((record.call.layer, record.call.number, heads), LayerPast())

    def remember(self, record: Record) -> None:
        """Keep what later calls are compared with."""
        if not record.call.training:
            return
        layer = self.of(record)
        largest = record.statistics.max_score
        assert largest is not None
        layer.steps.append(record.call.step)
        layer.max_scores.append(largest[0])
