"""What came of looking at a learner's file. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from softlookup.terms import Finding

State = Literal["not written", "wrong", "solved"]


@dataclass(frozen=True)
class Remark:
    """One thing that keeps an exercise from being solved, and a question to think about."""

    finding: Finding  # its ``fix`` is empty: nobody is told the answer
    question: str = ""
    veiled: bool = False  # the name and the line are the answer that is looked for: only the case is shown


@dataclass(frozen=True)
class Judgement:
    """What one file is worth."""

    exercise: str  # its name
    file: str
    state: State
    remarks: tuple[Remark, ...] = ()
    held: tuple[str, ...] = field(default=())  # what was right, in words

    @property
    def solved(self) -> bool:
        """True when nothing is left to do."""
        return self.state == "solved"

    def names(self) -> list[str]:
        """Return the names of what is wrong, in order."""
        return [remark.finding.name for remark in self.remarks]
