"""A part that looks at how a function computes: which torch calls it makes, how large their results are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from softlookup.checker.calls import Answer
from softlookup.checker.target import FileSession
from softlookup.learn.judgement import Remark
from softlookup.learn.mistakes import Fault
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import last_line_of
from softlookup.terms import Finding


@dataclass(frozen=True)
class Traced:
    """The torch calls that a function makes are judged; asked after a part that judges its answers.

    verdict: gets one answer for each call, and returns the fault that it sees and the line to show, or None;
    a line of None is the last one of the definition
    """

    name: str
    inputs: Sequence[Given]
    verdict: Callable[[Sequence[Answer]], tuple[Fault, int | None] | None]
    holds: str

    def remarks(self, session: FileSession, source: str) -> list[Remark]:
        """Return the fault, as a remark."""
        answers = session.target(self.name).perform([given.call() for given in self.inputs])
        seen = self.verdict(answers)
        if seen is None:
            return []
        fault, line = seen
        where = line or last_line_of(self.name, source)
        return [Remark(Finding("", fault.name, fault.summary, where), fault.question)]
