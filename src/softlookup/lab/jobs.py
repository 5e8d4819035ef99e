"""Long work: one thread owns the model and does one job after another; each says how far it is, and can end.

Nothing else may touch the model: torch's modules, hooks and replaced functions are of one process, not of one
request. A job is cancelled between two forwards, where it reports how far it is.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from softlookup.terms import SoftlookupError

State = Literal["waiting", "running", "done", "failed", "cancelled"]
ENDED = ("done", "failed", "cancelled")

MOST_WAITING = 32
MOST_KEPT = 64  # results of jobs that have ended; the oldest are forgotten

_log = logging.getLogger("softlookup.lab")


class CancelledError(Exception):
    """The job was cancelled."""


class Progress:
    """How far a job is; what does the work calls ``said`` between forwards, and ends there if cancelled."""

    def __init__(self) -> None:
        self.done, self.of, self.words = 0, 0, ""
        self._cancelled = threading.Event()

    def said(self, words: str, done: int = 0, of: int = 0) -> None:
        """Say what is done now, and how much of it.

        Raises: CancelledError when somebody asked for that.
        """
        if self._cancelled.is_set():
            raise CancelledError
        self.words, self.done, self.of = words, done, of

    def cancel(self) -> None:
        """End the work the next time it says how far it is."""
        self._cancelled.set()


Work = Callable[[Progress], Any]


@dataclass(eq=False)
class Job:
    """One piece of work. kind: what it is called on the page;  result: what it returned, once it is done."""

    number: int
    kind: str
    work: Work | None = field(repr=False)
    state: State = "waiting"
    progress: Progress = field(default_factory=Progress, repr=False)
    result: Any = field(default=None, repr=False)
    error: str = ""
    seconds: float = 0.0

    def facts(self) -> dict[str, Any]:
        """Return what the page is told."""
        told = {"job": self.number, "kind": self.kind, "state": self.state, "error": self.error}
        progress = {"words": self.progress.words, "done": self.progress.done, "of": self.progress.of}
        more = {"result": self.result, "seconds": round(self.seconds, 3)} if self.state == "done" else {}
        return told | progress | more


class Jobs:
    """A queue of jobs and the one thread that does them."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._kept: dict[int, Job] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._worker = threading.Thread(target=self._work, name="softlookup-lab-model", daemon=True)
        self._worker.start()

    def add(self, kind: str, work: Work) -> Job:
        """Put work into the queue.

        Raises: SoftlookupError when too much is waiting already.
        """
        with self._lock:
            waiting = sum(it.state == "waiting" for it in self._kept.values())
            if waiting >= MOST_WAITING:
                raise SoftlookupError(
                    "lab: the model is busy.", got=f"{waiting} jobs waiting", hint="cancel some"
                )
            job = Job(next(self._numbers), kind, work)
            self._kept[job.number] = job
            ended = [it.number for it in self._kept.values() if it.state in ENDED]
            for number in ended[: max(0, len(ended) - MOST_KEPT)]:
                del self._kept[number]
        self._waiting.put(job)
        return job

    def find(self, number: int) -> Job | None:
        """Return a job by its number; None where it was forgotten, or never was."""
        return self._kept.get(number)

    def kept(self) -> list[Job]:
        """Return the jobs that are not forgotten, the oldest first."""
        return list(self._kept.values())

    def cancel(self, job: Job) -> None:
        """End a job: at once where it only waits, else before its next forward."""
        with self._lock:
            job.progress.cancel()
            if job.state == "waiting":
                job.state, job.work = "cancelled", None

    def close(self, wait_seconds: float = 5.0) -> None:
        """Cancel everything and end the thread."""
        for job in self.kept():
            self.cancel(job)
        self._waiting.put(None)
        self._worker.join(wait_seconds)

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            with self._lock:
                if job.state != "waiting":
                    continue
                job.state, work, job.work = "running", job.work, None
            assert work is not None
            begun = time.perf_counter()
            try:
                job.result = work(job.progress)
                state: State = "done"
            except CancelledError:
                state = "cancelled"
            except Exception as problem:
                state, job.error = "failed", _words_of(problem)
            job.seconds = time.perf_counter() - begun
            job.state = state  # last: whoever sees it finds the rest in place


def _words_of(problem: Exception) -> str:
    """Return what the page is told of a problem; the trace goes to the terminal, never to the page."""
    if isinstance(problem, SoftlookupError):
        return str(problem)
    _log.exception("a job of the lab failed")
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {lines[0][:300] if lines else 'no reason was given'}"
