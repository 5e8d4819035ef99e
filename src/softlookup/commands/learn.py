"""Learn attention: exercises that name your mistake, a quiz."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softlookup.console import CLEAN, FOUND, no_color_option, show
from softlookup.learn.exercise import Exercise, all_exercises, find_exercise
from softlookup.learn.place import Place
from softlookup.report.plain_words import count
from softlookup.terms import SoftlookupError

if TYPE_CHECKING:
    from softlookup.learn.judgement import Judgement


@click.group("learn", invoke_without_command=True)
@no_color_option
@click.pass_context
def command(context: click.Context, no_color: bool) -> None:
    """Without a subcommand: where you are, and what is next."""
    if context.invoked_subcommand is None:
        from softlookup.learn.showing import way_renderable

        show(way_renderable(_place()), no_color=no_color)


@command.command("init")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--notebooks", is_flag=True, help="The exercises as Jupyter notebooks, too.")
@no_color_option
def _init(folder: Path, notebooks: bool, no_color: bool) -> None:
    """Make a folder with the exercises; what is in it already stays as it is."""
    from rich.text import Text

    place, new = Place.made(folder)
    words = f"{count(len(new), 'exercise')} written to {folder}"
    show(Text(words if new else f"All exercises are in {folder} already."), no_color=no_color)
    if notebooks:
        from softlookup.learn.notebooks import write_notebooks

        written = write_notebooks(place)
        show(Text(f"{count(len(written), 'notebook')} written beside them"), no_color=no_color)
    show(Text(f"Next: cd {folder} && softlookup learn"), no_color=no_color)


@command.command("check")
@click.argument("exercise", required=False)
@click.option("--all", "every", is_flag=True, help="All exercises, one line each.")
@no_color_option
@click.pass_context
def _check(context: click.Context, exercise: str | None, every: bool, no_color: bool) -> None:
    """Check an exercise, by name, number or file; without one, the one you are at."""
    place = _place()
    if every:
        from rich.text import Text

        for it in all_exercises():
            judgement = _judged(place, it)
            names = ", ".join(judgement.names())
            show(Text(f"{it.place} {it.name}: {judgement.state} {names}".rstrip()), no_color=no_color)
        context.exit(CLEAN if place.current() is None else FOUND)
    wanted = find_exercise(exercise) if exercise else _current(place)
    judgement = _judged(place, wanted)
    _show_judgement(place, wanted, judgement, no_color)
    context.exit(CLEAN if judgement.solved else FOUND)


@command.command("watch")
@no_color_option
def _watch(no_color: bool) -> None:
    """Check again whenever you save; ends with Ctrl-C."""
    from softlookup.learn.watching import watched

    place = _place()
    for exercise, judgement in watched(place):
        place.progress.note(judgement)
        click.clear()
        _show_judgement(place, exercise, judgement, no_color)


@command.command("hint")
@click.argument("exercise", required=False)
@no_color_option
def _hint(exercise: str | None, no_color: bool) -> None:
    """Show the next hint, and those before it."""
    from softlookup.learn.showing import hint_renderable

    place = _place()
    wanted = find_exercise(exercise) if exercise else _current(place)
    number = place.progress.one_more_hint(wanted.name, len(wanted.hints))
    show(hint_renderable(wanted, number), no_color=no_color)


@command.command("solution")
@click.argument("exercise", required=False)
@click.option("--yes", is_flag=True, help="Do not ask.")
def _solution(exercise: str | None, yes: bool) -> None:
    """Print one right way to write it; asks first."""
    place = _place()
    wanted = find_exercise(exercise) if exercise else _current(place)
    record = place.progress.of(wanted.name)
    left = len(wanted.hints) - record.hints
    if not yes and record.state != "solved":
        unread = f" {count(left, 'hint')} not read yet." if left else ""
        click.confirm(f"Show the solution of {wanted.place} {wanted.title}?{unread}", abort=True)
    record.solution_shown = record.solution_shown or record.state != "solved"
    place.progress.write()
    click.echo(wanted.solution.rstrip())


@command.command("reset")
@click.argument("exercise")
@click.option("--yes", is_flag=True, help="Do not ask.")
def _reset(exercise: str, yes: bool) -> None:
    """Hand an exercise out anew; what you wrote is kept beside it."""
    place = _place()
    wanted = find_exercise(exercise)
    if not yes:
        click.confirm(f"Start {wanted.place} {wanted.title} again?", abort=True)
    kept = place.hand_out_anew(wanted)
    click.echo(f"{place.shown(wanted)} is as it was handed out.")
    if kept:
        click.echo(f"Your text is in {kept.name}, beside it.")


@command.command("quiz")
@click.option("--lesson", type=click.IntRange(1, 8), help="Only questions of this lesson.")
@click.option("--count", "number", type=click.IntRange(1), default=8, show_default=True, help="How many.")
def _quiz(lesson: int | None, number: int) -> None:
    """Ask questions; those that were missed come again."""
    from softlookup.learn.asking import ask

    ask(_place().progress, lesson, number)


@command.command("progress")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@no_color_option
def _progress(form: str, no_color: bool) -> None:
    """Show how often each exercise was tried, and which mistakes were met."""
    place = _place()
    if form == "json":
        rows = {it.name: asdict(place.progress.of(it.name)) for it in all_exercises()}
        cards = {name: asdict(card) for name, card in place.progress.cards.items()}
        click.echo(json.dumps({"exercises": rows, "quiz": cards}, indent=1))
        return
    from softlookup.learn.showing import progress_renderable

    show(progress_renderable(place), no_color=no_color)


def _place() -> Place:
    return Place.around(Path.cwd())


def _current(place: Place) -> Exercise:
    current = place.current()
    if current is None:
        raise SoftlookupError(
            "learn: all exercises are solved.",
            expected="the name or number of one",
            hint="`softlookup learn check 3.1` checks one again, `softlookup learn quiz` asks questions",
        )
    return current


def _judged(place: Place, exercise: Exercise) -> Judgement:
    from softlookup.learn.judging import judge

    judgement = judge(exercise, place.file(exercise))
    place.progress.note(judgement)
    return judgement


def _show_judgement(place: Place, exercise: Exercise, judgement: Judgement, no_color: bool) -> None:
    from rich.text import Text

    from softlookup.learn.showing import exercise_renderable, judgement_renderable

    source = place.file(exercise).read_text(encoding="utf-8", errors="replace")
    shown = replace(judgement, file=place.shown(exercise))
    show(judgement_renderable(shown, exercise, source), no_color=no_color)
    following = place.current()
    if not judgement.solved:
        todo = "write it" if judgement.state == "not written" else "mend it"
        left = place.progress.of(exercise.name).hints < len(exercise.hints)
        way = f"hint {exercise.name}` helps" if left else f"solution {exercise.name}` shows one"
        show(Text(f"\nNext: {todo}, save, and check again; `softlookup learn {way}."), no_color=no_color)
    elif following is None:
        show(
            Text("\nThat was the last one. `softlookup learn quiz` asks what has stayed."), no_color=no_color
        )
    else:
        show(Text("\nNext:"), no_color=no_color)
        show(exercise_renderable(following, place.shown(following)), no_color=no_color)
