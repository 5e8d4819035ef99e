"""What a watch has seen: the last calls, the numbers of every layer over all steps, the alarms."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from softlookup.live.coverage import Coverage
from softlookup.live.judging import judge
from softlookup.live.limits import Limits
from softlookup.live.past import Past, entropy_fraction
from softlookup.live.record import Alarm, Record
from softlookup.statistics.summary import Statistics

_ALARMS = 1000  # kept; a run that raises more has been told


class Trace:
    """What a watch has seen so far.

    records: the last calls that were measured, oldest first
    layers: by path, the statistics of all measured calls of the layer, [1, H]
    alarms: what went wrong, in the order in which it did
    """

    def __init__(self, coverage: Coverage, limits: Limits, *, keep: int) -> None:
        self.records: deque[Record] = deque(maxlen=keep)
        self.layers: dict[str, Statistics] = {}
        self.alarms: list[Alarm] = []
        self.steps = 0  # begun
        self.on_step: Callable[[], None] = lambda: None  # what `step` tells
        self._coverage, self._limits, self._past = coverage, limits, Past()

    @property
    def coverage(self) -> str:
        """One line: which layers of attention were seen, and which calls were not observable, and why."""
        return str(self._coverage)

    def step(self) -> None:
        """End a step here, e.g. after each step of an optimizer; from then on nothing else ends one."""
        self.on_step()

    def add(self, record: Record) -> list[Alarm]:
        """Take a record in, and return the alarms that it raises."""
        self.records.append(record)
        path, statistics = record.call.layer, record.statistics
        before = self.layers.get(path)
        if before is not None and before.queries.shape == statistics.queries.shape:
            if before.moments.keys() != statistics.moments.keys():  # a rule could be asked of one call only
                statistics = _alike(statistics, before)
                before = _alike(before, statistics)
            statistics = before.merge_steps(statistics)
        self.layers[path] = statistics
        raised = judge(record, self._past, self._limits)
        self.alarms += raised[: max(0, _ALARMS - len(self.alarms))]
        return raised

    def __repr__(self) -> str:
        lines = [f"{self.steps} steps; {self.coverage}"]
        for path, statistics in self.layers.items():
            largest, fraction = statistics.max_score, entropy_fraction(statistics)
            assert largest is not None
            lines.append(
                f"  {path or '(the model)':<40} heads {statistics.queries.shape[1]:>3}"
                f"  entropy {fraction.nanmean():6.1%} of log n  largest score {largest.max():8.2f}"
                f"  on the first key {statistics.first_mass.nanmean():6.1%}"
            )
        lines += [f"  {it.code} {it.name}: {it.words}" for it in self.alarms]
        return "\n".join(lines)


def _alike(one: Statistics, other: Statistics) -> Statistics:
    """The same with only those moments that the other has as well."""
    return replace(one, moments={name: it for name, it in one.moments.items() if name in other.moments})
