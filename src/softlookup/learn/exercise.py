"""Exercises: found by the name of their folder and read without importing them, so that nothing needs torch.

An exercise is a folder ``exercises/lNeM_some_name/`` (lesson N, exercise M) with three files: ``task.py`` is
handed out, ``solution.py`` is one right way to write it, ``judge.py`` says what is asked. The docstring of
``judge.py`` is its page: the first line is the title, then come paragraphs with fixed first words: ``Goal:``,
``Checks:``, ``Ask:`` and three times ``Hint:``.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

from softlookup.learn.lessons import LESSONS, Lesson
from softlookup.terms import SoftlookupError, did_you_mean

Kind = Literal["write", "find", "predict"]

#: What a task yields as it is handed out, where that is no rule.
NOT_WRITTEN = "not-written"

_FOLDERS = Path(__file__).parent / "exercises"
_FOLDER = re.compile(r"l(\d)e(\d)_([a-z0-9_]+)")
_PART = re.compile(r"^(Goal|Checks|Ask|Hint):\s*", re.M)


@dataclass(frozen=True)
class Exercise:
    """One exercise."""

    lesson: Lesson
    number: int  # within its lesson
    name: str  # e.g. "causal-mask"
    folder: Path

    @property
    def path(self) -> Path:
        """Where it lies below a learner's folder."""
        lesson = f"lesson{self.lesson.number}_{self.lesson.name.replace('-', '_')}"
        return Path(lesson, f"{self.number}_{self.name.replace('-', '_')}.py")

    @property
    def place(self) -> str:
        """Its number as people write it, e.g. "3.1"."""
        return f"{self.lesson.number}.{self.number}"

    @property
    def task(self) -> str:
        """The text that is handed out."""
        return (self.folder / "task.py").read_text(encoding="utf-8")

    @property
    def solution(self) -> str:
        """One right text."""
        return (self.folder / "solution.py").read_text(encoding="utf-8")

    @cached_property
    def _parsed(self) -> ast.Module:
        return ast.parse((self.folder / "judge.py").read_text(encoding="utf-8"))

    @cached_property
    def _page(self) -> str:
        return ast.get_docstring(self._parsed) or ""

    @property
    def title(self) -> str:
        """The first line of its page."""
        return self._page.partition("\n")[0].rstrip(".")

    @property
    def kind(self) -> Kind:
        """Whether one writes it, finds a planted bug, or predicts what fails."""
        kind: Kind = self._literal("KIND")
        assert kind in get_args(Kind), f"{self.name}: KIND is {kind!r}"
        return kind

    @property
    def as_given(self) -> str:
        """The name that the task yields as it is handed out: of a rule, or ``NOT_WRITTEN``."""
        return str(self._literal("AS_GIVEN"))

    @property
    def goal(self) -> str:
        """What is asked."""
        return self._paragraphs("Goal")[0]

    @property
    def checks(self) -> str:
        """What is checked."""
        return self._paragraphs("Checks")[0]

    @property
    def question(self) -> str:
        """What to think about when it fails and the mistake has no question of its own."""
        return self._paragraphs("Ask")[0]

    @property
    def hints(self) -> list[str]:
        """Three hints, each says more than the one before."""
        return self._paragraphs("Hint")

    def judge(self) -> ModuleType:
        """Import what judges it. This is what needs torch."""
        return import_module(f"softlookup.learn.exercises.{self.folder.name}.judge")

    def _paragraphs(self, title: str) -> list[str]:
        """Return the paragraphs that start with ``title:``, each on one line."""
        pieces = _PART.split(self._page)
        found = [text for word, text in zip(pieces[1::2], pieces[2::2], strict=True) if word == title]
        return [" ".join(text.split("\n\n")[0].split()) for text in found]

    def _literal(self, name: str) -> Any:
        node = assignment(self._parsed, name)
        assert node is not None, f"{self.folder.name}/judge.py sets no {name}"
        return ast.literal_eval(node.value)


def assignment(tree: ast.Module, name: str) -> ast.Assign | None:
    """Return where a file gives a value to this name and no other; None where it does not."""
    found = (node for node in tree.body if isinstance(node, ast.Assign))
    return next((node for node in found if [ast.unparse(it) for it in node.targets] == [name]), None)


@lru_cache
def all_exercises() -> tuple[Exercise, ...]:
    """Return every exercise, in the order of the lessons."""
    lessons = {lesson.number: lesson for lesson in LESSONS}
    return tuple(
        Exercise(lessons[int(match[1])], int(match[2]), match[3].replace("_", "-"), folder)
        for folder in sorted(_FOLDERS.iterdir())
        if (match := _FOLDER.fullmatch(folder.name))
    )


def find_exercise(words: str) -> Exercise:
    """Return the exercise with this name (``causal-mask``), number (``3.1``) or file.

    Raises: SoftlookupError when there is none, with the nearest names.
    """
    stem = Path(words).name.removesuffix(".py")
    name = re.sub(r"^\d_", "", stem).replace("_", "-").lower()
    for it in all_exercises():
        if words.strip() == it.place or name == it.name:
            return it
    raise SoftlookupError(
        f"learn: no exercise is called {words!r}.",
        expected="a name such as causal-mask, or a number such as 3.1",
        got=repr(words),
        hint=did_you_mean(name, [it.name for it in all_exercises()], "`softlookup learn` lists them"),
    )
