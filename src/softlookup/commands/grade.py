"""Judge the exercises of a class: one row a learner."""

from __future__ import annotations

import os
from pathlib import Path

import click

from softlookup.console import progress
from softlookup.learn.exercise import find_exercise
from softlookup.terms import SoftlookupError


@click.command("grade")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--exercise", metavar="NAME", help="What every file is; without it the file's name says so.")
@click.option("--format", "form", type=click.Choice(["csv", "json"]), default="csv", show_default=True)
@click.option(
    "--jobs", type=click.IntRange(1), default=None, help="Files judged at the same time; one a core."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=20.0,
    show_default=True,
    help="Seconds for one file.",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
def command(
    folder: Path, exercise: str | None, form: str, jobs: int | None, timeout: float, output: Path | None
) -> None:
    """Judge what lies in FOLDER: for each learner a folder with exercises, or a file.

    Every file runs in a guarded child process with a limit of time and memory, so that none stops the rest.
    """
    from softlookup.learn.grading import as_csv, as_json, collected, grade_all

    wanted = find_exercise(exercise) if exercise else None
    rows, submissions = collected(folder, wanted)
    with progress(len(submissions)) as say:
        grade_all(rows, submissions, jobs=jobs or os.cpu_count() or 1, seconds=timeout, say=say)
    text = as_csv(rows) if form == "csv" else as_json(rows)
    if output is None:
        click.echo(text)
        return
    try:
        output.write_text(text + "\n", encoding="utf-8")
    except OSError as problem:
        raise SoftlookupError(
            f"grade: the rows could not be written to {str(output)!r}.",
            expected="a file in a folder that exists",
            got=str(problem),
        ) from None
