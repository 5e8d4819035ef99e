"""In a notebook: ``%load_ext softlookup.learn.jupyter``, then ``%%exercise NAME`` on top of a cell.

The cell runs as every cell does, and its text is judged as a file would be. With a folder of exercises around
the notebook, its progress is written there.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from softlookup.console import plain_text
from softlookup.learn.exercise import Exercise, find_exercise
from softlookup.learn.judging import judge
from softlookup.learn.place import Place
from softlookup.learn.showing import hint_renderable, judgement_renderable
from softlookup.terms import SoftlookupError


def load_ipython_extension(shell: Any) -> None:
    """Make ``%%exercise`` and ``%hint`` known to IPython."""

    def exercise(line: str, cell: str) -> None:
        """Run the cell, and judge it as the exercise of this name."""
        wanted = find_exercise(line)
        shell.run_cell(cell)
        click.echo(judged_cell(wanted, cell))

    def hint(line: str) -> None:
        """Show the next hint of an exercise."""
        click.echo(next_hint(find_exercise(line)))

    shell.register_magic_function(exercise, "cell", "exercise")
    shell.register_magic_function(hint, "line", "hint")


def judged_cell(exercise: Exercise, text: str) -> str:
    """Judge the text of a cell, note it, and return what is said of it."""
    with tempfile.TemporaryDirectory(prefix="softlookup-") as folder:
        file = Path(folder, exercise.path.name)
        file.write_text(text, encoding="utf-8")
        judgement = judge(exercise, file)
    if place := _place():
        place.progress.note(judgement)
    return plain_text(judgement_renderable(judgement, exercise, text))


#: Hints shown where no folder keeps count.
_shown: dict[str, int] = {}


def next_hint(exercise: Exercise) -> str:
    """Count one more hint, and return all up to it."""
    most = len(exercise.hints)
    if place := _place():
        return plain_text(hint_renderable(exercise, place.progress.one_more_hint(exercise.name, most)))
    _shown[exercise.name] = min(_shown.get(exercise.name, 0) + 1, most)
    return plain_text(hint_renderable(exercise, _shown[exercise.name]))


def _place() -> Place | None:
    try:
        return Place.around(Path.cwd())
    except SoftlookupError:
        return None
