"""The eight lessons and their order: the one place that says so."""

from __future__ import annotations

from typing import NamedTuple


class Lesson(NamedTuple):
    """One lesson; its exercises are folders in ``exercises/``, its questions a file in ``quiz/``."""

    number: int
    name: str  # of its folder, its questions and its page in docs/tutorial
    title: str


LESSONS = (
    Lesson(1, "soft-lookup", "A soft lookup"),
    Lesson(2, "scores-and-scale", "Scores, shapes and the scale"),
    Lesson(3, "masks", "Masks: who may look where"),
    Lesson(4, "self-and-cross", "Self-attention, cross-attention and maps"),
    Lesson(5, "heads", "Many heads"),
    Lesson(6, "production", "Production calls and what they cost"),
    Lesson(7, "debugging", "Debugging like an engineer"),
    Lesson(8, "long-context", "Fewer keys: groups, windows and blocks"),
)
