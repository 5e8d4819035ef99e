"""What a watch remembers, in bounded memory: the last records, and of all of them sums and thinned series."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from softlookup.live.numbers_of_heads import head_numbers
from softlookup.live.record import Kind, Record
from softlookup.live.thinned_series import Series, ThinnedSeries
from softlookup.statistics.moments import Moments
from softlookup.statistics.summary import Statistics

_AT_ONCE = 16  # calls of a place that are added together: one by one takes several times as long


class Place(NamedTuple):
    """Where calls are alike: a layer, the kind of its keys, and how many heads were measured."""

    layer: str
    kind: Kind
    num_heads: int


class History:
    """The last records, and for each layer what all records came to. One thread adds, any may read.

    keep: how many records stay whole. One of them takes about H * (400 + 8 * cells of the pooled map) bytes
    points: how many points a series has at most; H * 416 bytes each

    >>> history = History(keep=2)
    >>> history.records, history.series()
    ((), {})
    """

    def __init__(self, keep: int = 512, *, points: int = 128) -> None:
        self._records: deque[Record] = deque(maxlen=keep)
        self._running: dict[Place, Statistics] = {}
        self._series: dict[Place, ThinnedSeries] = {}
        self._waiting: dict[Place, list[Record]] = {}
        self._points = points
        self._lock = threading.Lock()

    def add(self, records: Iterable[Record]) -> None:
        """Remember records, in the order in which they were measured."""
        with self._lock:
            for record in records:
                self._records.append(record)
                call = record.call
                place = Place(call.layer, call.kind, record.statistics.queries.shape[1])
                waiting = self._waiting.setdefault(place, [])
                waiting.append(record)
                if len(waiting) >= _AT_ONCE:
                    self._fold(place)

    @property
    def records(self) -> tuple[Record, ...]:
        """The last records, oldest first."""
        with self._lock:
            return tuple(self._records)

    def statistics(self) -> dict[Place, Statistics]:
        """Return the statistics [1, H] of all calls so far, as ``Statistics.merge_steps`` merges them.

        What only some calls measured, as the weight that a rule forbids, is of those calls. The pooled map is
        gone once two calls of a place differ in its grid, as they do when they differ in length.
        """
        with self._lock:
            self._fold_all()
            return dict(self._running)

    def series(self) -> dict[Place, Series]:
        """Return how the numbers of each head went over the steps, at no more than ``points`` points."""
        with self._lock:
            self._fold_all()
            return {place: series.read() for place, series in self._series.items()}

    def _fold_all(self) -> None:
        for place in list(self._waiting):
            self._fold(place)

    def _fold(self, place: Place) -> None:
        """Add the waiting records of a place to its statistics and its series."""
        waiting = self._waiting.pop(place, [])
        if not waiting:
            return
        new = [record.statistics for record in waiting]
        before = [self._running[place]] if place in self._running else []
        self._running[place] = merge_all(before + new)
        series = self._series.setdefault(place, ThinnedSeries(place.num_heads, self._points))
        steps = [record.call.step for record in waiting]
        series.add(steps, head_numbers(_below_each_other([_one_sample(it) for it in new])))


def merge_all(many: Sequence[Statistics]) -> Statistics:
    """Return what ``merge_steps`` makes of all samples of statistics one after the other, [1, H], in one go.

    A number that only some of them hold is merged over those.
    """
    singles = [_one_sample(it) for it in many]
    maps = singles[0].pooled
    for it in singles[1:]:
        maps = None if maps is None else maps.merge_maps(it.pooled)
    return replace(_below_each_other(singles).over_batch(), pooled=maps)


def _one_sample(statistics: Statistics) -> Statistics:
    return statistics if len(statistics.queries) == 1 else statistics.over_batch()


def _below_each_other(many: Sequence[Statistics]) -> Statistics:
    """Return statistics [1, H] of several calls as samples [n, H] of one, without maps."""
    names = dict.fromkeys(name for it in many for name in it.moments)
    moments = {name: _joined([it.moments.get(name) or _nothing(it) for it in many]) for name in names}
    counts = {name: torch.cat([it.counts[name] for it in many]) for name in many[0].counts}
    return Statistics(moments, counts, steps=sum(it.steps for it in many))


def _joined(parts: Sequence[Moments]) -> Moments:
    """Return moments of [1, H] below each other."""

    def column(name: str) -> Tensor:
        return torch.cat([getattr(part, name) for part in parts])

    return Moments(*(column(name) for name in ("count", "mean", "m2", "low", "high")))


def _nothing(like: Statistics) -> Moments:
    """Return the moments of no numbers, [1, H]."""
    return Moments.of(torch.empty(*like.queries.shape, 0))
