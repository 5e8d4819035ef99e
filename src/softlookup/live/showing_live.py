"""The picture of a watch on a terminal, drawn again while the model runs; elsewhere nothing is shown."""

from __future__ import annotations

import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TextIO, cast

from torch import Tensor

from softlookup.live.numbers_of_heads import WORSE, head_numbers
from softlookup.live.record import Alarm, Record
from softlookup.report.watch_view import WatchPicture, watch_renderable
from softlookup.terms import refuse_unknown

if TYPE_CHECKING:
    from rich.live import Live

_SECONDS = 0.25  # at least, between two pictures
_ALARMS = 3  # kept, the last ones

#: What can be drawn, in words, and between which numbers; None: as large as they are.
STATISTICS: dict[str, tuple[str, tuple[float, float] | None]] = {
    "entropy_share": ("entropy / log(visible keys)", (0.0, 1.0)),
    "max_score": ("largest score", None),
    "first_mass": ("weight on the first key, the sink", (0.0, 1.0)),
    "self_mass": ("weight on the query's own position", (0.0, 1.0)),
    "distance_tokens": ("how far back a query looks, in tokens", None),
    "forbidden_mass": ("weight on keys that the rule forbids", (0.0, 1.0)),
}


class LiveView:
    """Show the heat map of one statistic on a terminal, at most four times a second.

    statistic: one of ``STATISTICS``
    file: where to show it: standard error when None. Nothing is shown where that is no terminal, so that
        logs and pipes stay as they are
    clock: seconds, for tests

    What the program prints meanwhile appears above the picture. The terminal is as it was after the block,
    also after an exception; the last picture stays.

    Raises: SoftlookupError for a statistic that there is not.

    >>> with LiveView("self_mass") as view:  # no terminal here
    ...     view.update([])
    """

    def __init__(
        self,
        statistic: str = "entropy_share",
        *,
        file: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        refuse_unknown([statistic], list(STATISTICS), "LiveView: a watch")
        self._statistic, self._clock = statistic, clock
        self._file = sys.stderr if file is None else file
        self._live: Live | None = None
        self._last: dict[str, Record] = {}  # of each layer
        self._alarms: deque[str] = deque(maxlen=_ALARMS)
        self._alarm_count, self._step, self._coverage = 0, 0, ""
        self._begun: tuple[float, int] | None = None
        self._drawn = -_SECONDS

    def __enter__(self) -> LiveView:
        if self._file.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._file, highlight=False, markup=False, emoji=False)
            self._live = Live(
                console=console,
                auto_refresh=False,  # no thread beside the training: each update draws, or does not
                redirect_stdout=sys.stdout.isatty(),  # else what goes into a file would come out here
                vertical_overflow="crop",
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._draw(now=False)  # the end of the live display draws once more
        self._stop()

    def update(self, records: Sequence[Record], alarms: Sequence[Alarm] = (), coverage: str = "") -> None:
        """Take in what a step has brought, and draw when the last picture is old enough.

        records, alarms: the new ones;  coverage: the line as it is now
        """
        if self._live is None:
            return
        now = self._clock()
        for record in records:
            self._step = record.call.step
            self._last[record.call.layer] = record
        if records and self._begun is None:
            self._begun = now, self._step
        self._alarms.extend(f"{it.code} {it.name}, step {it.step}: {it.words}" for it in alarms)
        self._alarm_count += len(alarms)
        self._coverage = coverage or self._coverage
        if now - self._drawn >= _SECONDS:
            self._drawn = now
            self._draw()

    def picture(self) -> WatchPicture:
        """Return what is drawn now."""
        words, scale = STATISTICS[self._statistic]
        every = {layer: head_numbers(it.statistics.over_batch()) for layer, it in self._last.items()}
        name = self._statistic
        if name == "max_score" and not any(name in numbers for numbers in every.values()):
            name, words = "max_score_at_most", f"{words}, at most"
        rate = None
        if self._begun is not None and self._clock() > self._begun[0]:
            rate = (self._step - self._begun[1]) / (self._clock() - self._begun[0])
        return WatchPicture(
            words,
            [(layer, self._of_heads(layer, numbers.get(name))) for layer, numbers in every.items()],
            cast(Literal["low", "high", ""], WORSE[self._statistic]),
            scale,
            self._step,
            rate,
            self._coverage,
            list(self._alarms),
            self._alarm_count,
        )

    def _of_heads(self, layer: str, numbers: Tensor | None) -> Sequence[float]:
        """Return a number for each head; NaN where it was not measured."""
        if numbers is None:
            return [float("nan")] * self._last[layer].statistics.queries.shape[1]
        return cast(list[float], numbers[0].tolist())

    def _draw(self, *, now: bool = True) -> None:
        """Draw, and give up with a warning where that fails: the training is worth more than the picture."""
        if self._live is None:
            return
        try:
            size = self._live.console.size
            drawn = watch_renderable(self.picture(), width=size.width, height=size.height - 1)
            self._live.update(drawn, refresh=now)
        except Exception as error:
            self._stop()
            warnings.warn(
                f"softlookup: the live view stopped ({type(error).__name__}: {error}).",
                RuntimeWarning,
                stacklevel=3,
            )

    def _stop(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()
