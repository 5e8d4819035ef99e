"""What a watch has seen: the last calls, the numbers of every layer over all steps, the alarms."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from softlookup.live.coverage import Coverage
from softlookup.live.heads_by_rank import Share
from softlookup.live.history import History, Place, merge_all
from softlookup.live.judging import judge, settle
from softlookup.live.limits import Limits
from softlookup.live.numbers_of_heads import head_numbers
from softlookup.live.past import Past
from softlookup.live.record import Alarm, FromRanks, Record
from softlookup.live.thinned_series import Series
from softlookup.statistics.summary import Statistics

_ALARMS = 1000  # kept; a run that raises more has been told
_REDUCED = 100  # of ranks, kept


class Trace:
    """What a watch has seen so far, in bounded memory.

    alarms: what went wrong, in the order in which it did
    steps: how many have begun
    shares: by path of the layer, which of its heads this process holds
    across_ranks: what all ranks had measured, at fixed steps, on rank 0, the last times: ``reduce_every``
    """

    def __init__(self, coverage: Coverage, limits: Limits, *, keep: int) -> None:
        self.alarms: list[Alarm] = []
        self.steps = 0
        self.shares: dict[str, Share] = {}
        self.across_ranks: deque[FromRanks] = deque(maxlen=_REDUCED)
        self.on_step: Callable[[], None] = lambda: None  # what `step` tells
        self._history = History(keep)
        self._coverage, self._limits, self._past = coverage, limits, Past()

    @property
    def records(self) -> tuple[Record, ...]:
        """The last calls that were measured, oldest first."""
        return self._history.records

    @property
    def layers(self) -> dict[str, Statistics]:
        """By path of the layer: the statistics [1, H] of all its measured calls."""
        found: dict[str, list[Statistics]] = {}
        for place, statistics in self._history.statistics().items():
            same = found.setdefault(place.layer, [])
            if not same or same[0].queries.shape == statistics.queries.shape:
                same.append(statistics)
        return {path: merge_all(parts) for path, parts in found.items()}

    @property
    def series(self) -> dict[Place, Series]:
        """By layer and kind of call: how its numbers went over the steps, at no more than some points."""
        return self._history.series()

    @property
    def coverage(self) -> str:
        """One line: which layers of attention were seen, and which calls were not observable, and why."""
        return str(self._coverage)

    def step(self) -> None:
        """End a step here, e.g. after each step of an optimizer; from then on nothing else ends one."""
        self.on_step()

    def add(self, record: Record) -> list[Alarm]:
        """Take a record in, and return the alarms that it raises."""
        self._history.add([record])
        return self._raise(judge(record, self._past, self._limits))

    def settle(self) -> list[Alarm]:
        """End what waited for later calls: none comes any more in this step."""
        return self._raise(settle(self._past))

    def _raise(self, raised: list[Alarm]) -> list[Alarm]:
        self.alarms += raised[: max(0, _ALARMS - len(self.alarms))]
        return raised

    def summary(self) -> dict[str, Any]:
        """Return what was seen as plain values: steps, coverage, numbers of each layer and head, alarms."""
        layers = []
        for path, statistics in self.layers.items():
            numbers = {name: it[0].tolist() for name, it in head_numbers(statistics).items()}
            layers.append({"layer": path, "heads": statistics.queries.shape[1], **numbers})
        alarms = [asdict(it) for it in self.alarms]
        return {"steps": self.steps, "coverage": self.coverage, "layers": layers, "alarms": alarms}

    def __repr__(self) -> str:
        lines = [f"{self.steps} steps; {self.coverage}"]
        for path, statistics in self.layers.items():
            numbers = head_numbers(statistics)
            entropy, sink = numbers["entropy_share"].nanmean(), numbers["first_mass"].nanmean()
            lines.append(
                f"  {path or '(the model)':<40} {statistics.queries.shape[1]:>3} heads"
                f"  entropy {float(entropy):6.1%} of log n"
                f"  largest score {float(numbers['max_score'].max()):8.2f}"
                f"  on the first key {float(sink):6.1%}"
            )
        lines += [f"  {it.code} {it.name}: {it.words}" for it in self.alarms]
        return "\n".join(lines)
