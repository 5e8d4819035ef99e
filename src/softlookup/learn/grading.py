"""Judge the files of a whole class: one row a learner, and no file stops the others.

Whoever lies directly in the folder is a learner: a folder with exercises anywhere in it, or one file. Which
exercise a file is, its name says: ``3_1_causal_mask.py``, ``1_causal_mask.py``, ``ada__causal-mask.py``.
"""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from softlookup.learn.exercise import Exercise, all_exercises, find_exercise
from softlookup.learn.judging import judge
from softlookup.terms import SoftlookupError

#: States of an exercise beyond those of a judgement.
MISSING, CRASHED = "missing", "not judged"


class Submission(NamedTuple):
    """One file to judge."""

    learner: str
    exercise: str
    path: Path


class Grade(NamedTuple):
    """What became of one exercise."""

    state: str
    names: tuple[str, ...] = ()


@dataclass
class Row:
    """One learner."""

    learner: str
    grades: dict[str, Grade] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)  # files that are no exercise

    @property
    def solved(self) -> int:
        """How many exercises are solved."""
        return sum(grade.state == "solved" for grade in self.grades.values())


def collected(folder: Path, exercise: Exercise | None) -> tuple[list[Row], list[Submission]]:
    """Return a row for each learner, and the files to judge.

    exercise: what every file is taken for; None: its name says so

    Raises: SoftlookupError when there is no such folder or nothing in it.
    """
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    learners = [it for it in entries if not it.name.startswith(".") and (it.is_dir() or it.suffix == ".py")]
    if not learners:
        raise SoftlookupError(
            "grade: there is nothing to judge.",
            expected="a folder that holds a folder or a Python file for each learner",
            got=str(folder),
            hint="softlookup grade submissions --exercise causal-mask --format csv",
        )
    rows: dict[str, Row] = {}
    submissions = []
    for entry in learners:
        learner = _learner_of(entry, exercise)
        row = rows.setdefault(learner, Row(learner))
        for file in sorted(entry.rglob("*.py")) if entry.is_dir() else [entry]:
            found = exercise or _exercise_of(file)
            if found is None:
                row.unknown.append(str(file.relative_to(folder)))
            elif found.name not in row.grades:
                row.grades[found.name] = Grade(CRASHED)
                submissions.append(Submission(learner, found.name, file))
    return list(rows.values()), submissions


def _learner_of(entry: Path, exercise: Exercise | None) -> str:
    if entry.is_dir():
        return entry.name
    return entry.stem if exercise else entry.stem.partition("__")[0]


def _exercise_of(file: Path) -> Exercise | None:
    stem = file.stem.rpartition("__")[2] if "__" in file.stem else file.stem
    if ".before_reset" in file.name:
        return None
    name = re.sub(r"^(?:\d_)+", "", stem).replace("_", "-").lower()
    return next((it for it in all_exercises() if it.name == name), None)


def grade_all(
    rows: Sequence[Row],
    submissions: Sequence[Submission],
    *,
    jobs: int,
    seconds: float,
    say: Callable[[str], None] = lambda words: None,
) -> None:
    """Judge what was collected, and write the grades into the rows.

    jobs: how many files are judged at the same time
    seconds: what one file may take
    say: told the learner and the exercise whenever one is done
    """
    of = {row.learner: row for row in rows}
    for submission, grade in _judged(submissions, jobs, seconds):
        of[submission.learner].grades[submission.exercise] = grade
        say(f"{submission.learner} {submission.exercise}: {grade.state}")


def _judged(
    submissions: Sequence[Submission], jobs: int, seconds: float
) -> Iterator[tuple[Submission, Grade]]:
    """Yield a grade for each file, as they come. A judge that dies is replaced; it has taken what it had."""
    waiting = list(submissions)
    together = jobs
    while waiting:
        context = multiprocessing.get_context("spawn")  # torch and fork do not go together
        with ProcessPoolExecutor(together, mp_context=context) as pool:
            running: dict[Future[Grade], Submission] = {}
            died: list[Submission] = []
            while (waiting or running) and not died:
                while waiting and len(running) < together:
                    submission = waiting.pop(0)
                    running[pool.submit(_grade, submission, seconds)] = submission
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    submission = running.pop(future)
                    try:
                        yield submission, future.result()
                    except BrokenProcessPool:
                        died.append(submission)
            died += running.values()
        if together == 1 and died:
            yield died[0], Grade(CRASHED)  # it alone was running
        else:
            waiting = died + waiting
        together = 1 if died else jobs


def _grade(submission: Submission, seconds: float) -> Grade:
    """Judge one file, in a process of the pool."""
    try:
        judgement = judge(find_exercise(submission.exercise), submission.path, seconds=seconds)
    except SoftlookupError:
        return Grade("unreadable")
    return Grade(judgement.state, tuple(judgement.names()))


def as_json(rows: Sequence[Row]) -> str:
    """Return the rows as a JSON list."""
    return json.dumps(
        [
            {
                "learner": row.learner,
                "solved": row.solved,
                "exercises": {
                    name: {"state": grade.state, "names": list(grade.names)}
                    for name, grade in row.grades.items()
                },
                "unknown_files": row.unknown,
            }
            for row in rows
        ],
        indent=1,
    )


def as_csv(rows: Sequence[Row]) -> str:
    """Return the rows as CSV: a column for each exercise that anybody handed in.

    A cell is "solved", or the state and the names of what is wrong.
    """
    columns = [it.name for it in all_exercises() if any(it.name in row.grades for row in rows)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["learner", "solved", *columns, "unknown files"])
    for row in rows:
        grades = [row.grades.get(name, Grade(MISSING)) for name in columns]
        cells = [": ".join(filter(None, (it.state, " ".join(it.names)))) for it in grades]
        writer.writerow([_safe(it) for it in (row.learner, str(row.solved), *cells, " ".join(row.unknown))])
    return out.getvalue().rstrip("\n")


def _safe(cell: str) -> str:
    """Return a cell that a spreadsheet takes for text: a learner may be called ``=1+1``."""
    return f"'{cell}" if cell[:1] in {"=", "+", "-", "@"} else cell
