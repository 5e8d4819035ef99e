"""Judge a learner's file: run it in a guarded child and ask one part after another."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from softlookup.checker.guard import Child, Limits, TargetError, launch
from softlookup.learn.exercise import NOT_WRITTEN, Exercise
from softlookup.learn.judgement import Judgement, Remark, State
from softlookup.terms import Finding, SoftlookupError

if TYPE_CHECKING:
    from softlookup.checker.target import FileSession
    from softlookup.learn.parts import Part

#: Seconds that a file may take: the exercises are small, and a loop without end should be named soon.
SECONDS = 20.0


def judge(
    exercise: Exercise, path: str | Path, *, seconds: float = SECONDS, waiting: Child | None = None
) -> Judgement:
    """Judge the file of one exercise.

    path: the learner's file
    seconds: what it may take
    waiting: a guarded process that waits for a file; without one it is started here. It is used up.

    Raises: SoftlookupError when there is no such file.
    """
    source = _text_of(path)
    try:
        ast.parse(source)
    except SyntaxError as error:
        words = f"Python cannot read the file: {error.msg}."
        return _judged(exercise, path, [Remark(Finding("", "syntax-error", words, error.lineno))])
    child = waiting or launch(path, Limits(wall_seconds=seconds))  # before torch is imported here
    try:
        if waiting:
            waiting.begin(path)
        return _answered(exercise, path, source, child)
    except TargetError as problem:
        return _judged(exercise, path, [Remark(Finding("SL001", "not-callable", problem.reason))])
    finally:
        child.close()


def _text_of(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SoftlookupError(
            "learn: the exercise could not be read.",
            expected=f"a Python file at {path}",
            got=str(error),
            hint="softlookup learn reset EXERCISE hands it out anew",
        ) from None


def _answered(exercise: Exercise, path: str | Path, source: str, child: Child) -> Judgement:
    """Load the file in its child, and ask."""
    import torch

    from softlookup.checker.target import FileSession

    torch.set_num_threads(1)
    session = FileSession(child)
    session.sketches()
    return judge_session(exercise, path, source, session)


def judge_session(exercise: Exercise, path: str | Path, source: str, session: FileSession) -> Judgement:
    """Ask a file that is loaded already; ``source`` is its text."""
    from softlookup.checker.calling import one_line

    if stopped := session.loading_failure:
        words = f"Its import stops: {stopped.kind}: {one_line(stopped)}"
        return _judged(exercise, path, [Remark(Finding("", "import-stops", words, stopped.line))])
    # The first part that does not hold is what is spoken of: one thing at a time.
    parts: Sequence[Part] = exercise.judge().PARTS
    held: list[str] = []
    for part in parts:
        remarks = part.remarks(session, source)
        if remarks:
            return _judged(exercise, path, remarks, held)
        held.append(part.holds)
    return _judged(exercise, path, [], held)


def _judged(
    exercise: Exercise, path: str | Path, remarks: Sequence[Remark], held: Sequence[str] = ()
) -> Judgement:
    asked = tuple(it if it.question else replace(it, question=exercise.question) for it in remarks)
    unwritten = any(it.finding.name == NOT_WRITTEN for it in remarks)
    state: State = "not written" if unwritten else "wrong" if remarks else "solved"
    return Judgement(exercise.name, str(path), state, asked, tuple(held))
