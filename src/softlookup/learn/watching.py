"""Judge a file again whenever it is saved. The next process imports torch while the learner reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from softlookup.checker.guard import Child, Limits, launch_waiting
from softlookup.learn.exercise import Exercise, all_exercises
from softlookup.learn.judgement import Judgement
from softlookup.learn.judging import SECONDS, judge
from softlookup.learn.place import Place
from softlookup.terms import SoftlookupError

_SETTLED_MS = 120  # editors write a file in several steps


def watched(place: Place) -> Iterator[tuple[Exercise, Judgement]]:
    """Yield a judgement of the current exercise now, and of every exercise when its file is saved.

    Raises: SoftlookupError when the package is missing that watches files.
    """
    try:
        from watchfiles import watch
    except ImportError:
        raise SoftlookupError(
            "learn: files cannot be watched.",
            expected="the package watchfiles",
            got="it is not installed",
            hint="pip install 'softlookup[learn]', or `softlookup learn check` after each save",
        ) from None
    files = {place.file(it): it for it in all_exercises()}
    with _Spare() as spare:
        if current := place.current():
            yield current, spare.judge(current, place.file(current))
        for changes in watch(place.folder, debounce=_SETTLED_MS, step=20, raise_interrupt=False):
            for saved in sorted({Path(path) for _, path in changes} & files.keys()):
                if saved.exists():
                    yield files[saved], spare.judge(files[saved], saved)


class _Spare:
    """A guarded process that has torch and waits for a file; after each use the next one is started."""

    def __init__(self) -> None:
        self._child = self._next()

    def __enter__(self) -> _Spare:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.close()

    def judge(self, exercise: Exercise, file: Path) -> Judgement:
        """Judge in the waiting process."""
        try:
            return judge(exercise, file, waiting=self._child)
        finally:
            if self._child.closed:
                self._child = self._next()

    @staticmethod
    def _next() -> Child:
        return launch_waiting(Limits(wall_seconds=SECONDS))
