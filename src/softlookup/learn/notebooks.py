"""The exercises as Jupyter notebooks, made from the same files."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from softlookup.learn.exercise import Exercise, all_exercises
from softlookup.learn.place import Place
from softlookup.terms import SoftlookupError


def write_notebooks(place: Place) -> list[Path]:
    """Write one notebook beside each handed-out file; those that are there stay as they are.

    Returns: the new ones.

    Raises: SoftlookupError when the package is missing that writes notebooks.
    """
    try:
        import nbformat
    except ImportError:
        raise SoftlookupError(
            "learn: notebooks cannot be written.",
            expected="the package nbformat",
            got="it is not installed",
            hint="pip install 'softlookup[learn]'",
        ) from None
    written = []
    for exercise in all_exercises():
        path = place.file(exercise).with_suffix(".ipynb")
        if not path.exists():
            nbformat.write(notebook_of(exercise), path)
            written.append(path)
    return written


def notebook_of(exercise: Exercise) -> Any:
    """Return the notebook of an exercise: what it is about, the code to complete, where help is."""
    from nbformat import v4

    tree = ast.parse(exercise.task)
    about = (ast.get_docstring(tree) or "").partition("\n")[2].strip()
    lines = exercise.task.splitlines()
    code = "\n".join(lines[tree.body[0].end_lineno or 0 :]).strip()
    cells = [
        v4.new_markdown_cell(f"# {exercise.place} {exercise.title}\n\n{about}\n\n**Goal.** {exercise.goal}"),
        v4.new_code_cell("%load_ext softlookup.learn.jupyter"),
        v4.new_code_cell(f"%%exercise {exercise.name}\n{code}"),
        v4.new_markdown_cell(
            f"Run the cell above: it is checked each time. `%hint {exercise.name}` shows the next hint."
        ),
    ]
    for number, cell in enumerate(cells):
        cell["id"] = f"{exercise.name}-{number}"  # the same whenever it is written
    notebook = v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook
