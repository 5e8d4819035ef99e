"""What a question is, and where all of them are. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import NamedTuple

from softlookup.learn.lessons import LESSONS


class Choice(NamedTuple):
    """One answer to choose, and why it is right or wrong."""

    text: str
    why: str


@dataclass(frozen=True)
class Question:
    """One question with one right answer."""

    name: str  # stays as it is: progress is kept under it
    text: str
    right: Choice
    wrong: tuple[Choice, ...]
    lesson: int = 0  # set when it is collected

    @property
    def choices(self) -> tuple[Choice, ...]:
        """All answers, the right one first."""
        return (self.right, *self.wrong)


@lru_cache
def all_questions() -> tuple[Question, ...]:
    """Return every question, in the order of the lessons."""
    found = []
    for lesson in LESSONS:
        module = import_module(f"softlookup.learn.quiz.lesson{lesson.number}")
        found += [Question(it.name, it.text, it.right, it.wrong, lesson.number) for it in module.QUESTIONS]
    return tuple(found)
