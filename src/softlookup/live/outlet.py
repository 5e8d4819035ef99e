"""What a step of the watch has brought, handed on: to a trace on disk, to loggers, to a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch

from softlookup.live.logging_to import Logger, flat_numbers, make_logger
from softlookup.live.record import Alarm, Record
from softlookup.live.showing_live import LiveView
from softlookup.live.storing import TraceWriter

_MOST = 4096  # records that wait for the end of their step; in a longer one the first are saved, not logged


class Watched(Protocol):
    """What a trace of the watch has, as far as it is handed on."""

    @property
    def alarms(self) -> list[Alarm]:
        """All alarms so far."""

    @property
    def coverage(self) -> str:
        """What was seen, in a line."""


class Outlet:
    """Collect the records of a step and hand them on when it ends.

    save_to: folder of a trace on disk; where training runs on several ranks, each has its own in it
    resume: go on with the trace that lies there
    log_to: what ``make_logger`` takes, or a list of such; rank 0 logs
    per_head: log every head, beside mean and worst
    show: draw this statistic on a terminal, as ``LiveView`` does, on rank 0

    >>> import torch
    >>> from softlookup.live.watching import watch
    >>> model = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    >>> name = "attention/self_attn/self_mass/mean"
    >>> outlet = Outlet(log_to=lambda numbers, step: print(step, name in numbers))
    >>> with watch(model, on_record=outlet.take) as trace, outlet.following(trace), torch.no_grad():
    ...     for step in range(2):
    ...         _ = model(torch.randn(2, 6, 16))
    ...         outlet.end_step(step)
    0 True
    1 True
    """

    def __init__(
        self,
        *,
        save_to: str | Path | None = None,
        resume: bool = False,
        log_to: Any = None,
        per_head: bool = False,
        show: str | None = None,
    ) -> None:
        targets = log_to if isinstance(log_to, (list, tuple)) else [] if log_to is None else [log_to]
        self._loggers: list[Logger] = [make_logger(target) for target in targets]
        self._save_to, self._resume, self._per_head, self._show = save_to, resume, per_head, show
        self._waiting: list[Record] = []
        self._trace: Watched | None = None
        self._told = 0  # alarms that were handed on
        self._step = 0
        self._writer: TraceWriter | None = None
        self._view: LiveView | None = None

    def take(self, record: Record) -> None:
        """Take a record in; give this to ``watch`` as ``on_record``."""
        self._waiting.append(record)
        if len(self._waiting) >= _MOST:
            self._hand_on(log=False)

    @contextmanager
    def following(self, trace: Watched, meta: Mapping[str, Any] | None = None) -> Iterator[None]:
        """Hand on what comes while the block runs; what is left at its end, or at an exception, is saved too.

        Raises: SoftlookupError when ``save_to`` holds a trace and ``resume`` is False.
        """
        rank, ranks = _rank()
        with ExitStack() as stack:
            self._trace, self._told = trace, 0
            if self._save_to is not None:
                folder = Path(self._save_to) / f"rank-{rank}" if ranks > 1 else Path(self._save_to)
                self._writer = stack.enter_context(TraceWriter(folder, meta=meta, resume=self._resume))
            if self._show is not None and rank == 0:
                self._view = stack.enter_context(LiveView(self._show))
            try:
                yield
            finally:
                self._hand_on(log=False)
                self._trace = self._writer = self._view = None

    def end_step(self, step: int) -> None:
        """Hand on what the step has brought.

        step: under which number it is logged; records keep their own
        """
        self._step = step
        self._hand_on(log=True)

    def drop(self) -> None:
        """Save and show what is waiting, but do not log it: an evaluation is no step of training."""
        self._hand_on(log=False)

    def _hand_on(self, *, log: bool) -> None:
        records, self._waiting = self._waiting, []
        alarms = [] if self._trace is None else list(self._trace.alarms[self._told :])
        self._told += len(alarms)
        if not records and not alarms:
            return
        if self._writer is not None:
            self._writer.append(records, alarms)
        if self._view is not None and self._trace is not None:
            self._view.update(records, alarms, self._trace.coverage)
        if log and records and self._loggers and _rank()[0] == 0:
            numbers = flat_numbers(records, per_head=self._per_head)
            for logger in self._loggers:
                logger(numbers, self._step)


def _rank() -> tuple[int, int]:
    """Return which process this is, and of how many."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
