"""A learner's folder: the handed-out files, and which exercise is next."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from softlookup.learn.exercise import Exercise, all_exercises
from softlookup.learn.progress import FILE, Progress
from softlookup.terms import SoftlookupError


class Place:
    """The folder of one learner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.progress = Progress(folder)

    @classmethod
    def around(cls, start: Path) -> Place:
        """Return the place that a folder is in.

        Raises: SoftlookupError when neither it nor a folder above it was made by ``softlookup learn init``.
        """
        for folder in (start.resolve(), *start.resolve().parents):
            if (folder / FILE).is_file():
                return cls(folder)
        raise SoftlookupError(
            "learn: this is no folder of exercises.",
            expected=f"a folder with the {FILE} that `softlookup learn init` writes, or one inside it",
            got=str(start.resolve()),
            hint="softlookup learn init attention-lessons && cd attention-lessons",
        )

    @classmethod
    def made(cls, folder: Path) -> tuple[Place, list[Exercise]]:
        """Make a folder, or complete one; return it and the exercises that were handed out now.

        What is there already is left as it is.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            place = cls(folder.resolve())
            new = [it for it in all_exercises() if not place.file(it).exists()]
            for exercise in new:
                place.hand_out(exercise)
            place.progress.write()
        except OSError as error:
            raise SoftlookupError(
                "learn: the exercises could not be written.",
                expected="a folder that can be written, or the name of a new one",
                got=str(error),
                hint="softlookup learn init attention-lessons",
            ) from None
        return place, new

    def file(self, exercise: Exercise) -> Path:
        """Return where the learner writes it."""
        return self.folder / exercise.path

    def hand_out(self, exercise: Exercise) -> None:
        """Write the task."""
        file = self.file(exercise)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(exercise.task, encoding="utf-8")

    def hand_out_anew(self, exercise: Exercise) -> Path | None:
        """Write the task once more; return where the text that was there is kept."""
        file = self.file(exercise)
        kept = None
        if file.exists() and file.read_text(encoding="utf-8", errors="replace") != exercise.task:
            names = (file.with_name(f"{file.stem}.before_reset_{number}.py") for number in count(1))
            kept = file.rename(next(name for name in names if not name.exists()))
        self.hand_out(exercise)
        self.progress.of(exercise.name).state = "not written"
        self.progress.write()
        return kept

    def current(self) -> Exercise | None:
        """Return the first exercise that is not solved; None when all are."""
        return next((it for it in all_exercises() if self.progress.of(it.name).state != "solved"), None)

    def shown(self, exercise: Exercise) -> str:
        """Return the path of an exercise as the learner types it."""
        file = self.file(exercise)
        here = Path.cwd()
        return str(file.relative_to(here) if file.is_relative_to(here) else file)
