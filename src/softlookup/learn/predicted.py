"""Exercises in which the learner predicts: which invariant fails first after a change?

The truth is measured when the file is judged, by running every change, and never written down.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from softlookup.checker.target import FileSession
from softlookup.learn.exercise import assignment
from softlookup.learn.judgement import Remark
from softlookup.learn.parts import constant, not_written
from softlookup.terms import Finding

#: What is predicted where every invariant holds after a change.
NOTHING = "none"


class Measured(NamedTuple):
    """What an invariant comes to after a change."""

    invariant: str
    holds: bool
    words: str  # what was measured, e.g. "the rows sum to 1.0000"


@dataclass(frozen=True)
class Predicted:
    """A dict of the file says for each change which invariant fails first; ``NOTHING``: all of them hold.

    measure: gets the name of a change, and returns what each invariant comes to, in their order; those after
    the first that fails may be left out
    questions: change -> what to think about when its prediction is wrong
    """

    name: str
    changes: Sequence[str]
    invariants: Sequence[str]
    measure: Callable[[str], Sequence[Measured]]
    questions: Mapping[str, str]

    @property
    def holds(self) -> str:
        """What is right."""
        return "every prediction comes true"

    def remarks(self, session: FileSession, source: str) -> list[Remark]:
        """Return what is wrong with the first prediction that is; one thing at a time."""
        said, line = constant(source, self.name)
        if not isinstance(said, dict):
            words = f"{self.name} is no dict of texts any more: a change, a colon, an invariant."
            return [Remark(Finding("", "no-predictions", words, line or 1))]
        if not any(said.values()):
            return [not_written(self.name, line)]
        for change in self.changes:
            answer = str(said.get(change) or "").strip().lower()
            if found := self._about(change, answer):
                name, words = found
                where = _line_of(source, self.name, change) or line
                question = self.questions.get(change, "") if answer else ""
                return [Remark(Finding("", name, words, where), question)]
        return []

    def _about(self, change: str, answer: str) -> tuple[str, str] | None:
        """Return the name and the words of what is wrong with a prediction; None when it comes true."""
        if not answer:
            return "not-predicted", f"{change}: nothing is predicted yet."
        if answer not in {*self.invariants, NOTHING}:
            words = (
                f"{change}: {answer!r} is no invariant. There are {', '.join(self.invariants)}, {NOTHING}."
            )
            return "unknown-name", words
        measured = self.measure(change)
        failing = next((it.invariant for it in measured if not it.holds), NOTHING)
        if answer == failing:
            return None
        return "prediction-wrong", f"{change}: {_what_is_so(answer, measured)}"


def _what_is_so(answer: str, measured: Sequence[Measured]) -> str:
    """Return what contradicts a wrong answer, without telling the right one."""
    if answer == NOTHING:
        return "at least one of the invariants fails after this change."
    its = next((it for it in measured if it.invariant == answer), None)
    if its and its.holds:
        return f"{answer} holds after this change: {its.words}."
    return f"another invariant, which is asked before {answer}, fails already."


def _line_of(source: str, name: str, key: str) -> int | None:
    """Return the line of a key in the dict that a file assigns to this name."""
    node = assignment(ast.parse(source), name)
    parts = ast.walk(node.value) if node else ()
    return next((it.lineno for it in parts if isinstance(it, ast.Constant) and it.value == key), None)
