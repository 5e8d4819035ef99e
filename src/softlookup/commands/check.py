"""Check the attention in files and folders."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from softlookup.check_run import CheckRun, split_name
from softlookup.configuration import Configuration, nearest
from softlookup.console import CLEAN, FAILED, FOUND, no_color_option, plain_text, progress, show
from softlookup.file_checks import Request
from softlookup.report.forms import FORMS, render
from softlookup.selection import Selection, known_words
from softlookup.terms import Contract, SoftlookupError


@click.command("check")
@click.argument("paths", nargs=-1, required=True, metavar="PATH[:NAME]...")
@click.option("--layout", metavar="AXES", help='Axes of q, e.g. "B H T d", "B T H d", "B T d", "T d".')
@click.option(
    "--mask",
    type=click.Choice(["allowed", "blocked", "additive", "none"]),
    help="What the mask means: allowed is True = may be looked at, blocked is True = hidden.",
)
@click.option(
    "--causal",
    type=click.Choice(["argument", "built-in", "none"]),
    help="Whether it is causal when asked, always, or never.",
)
@click.option(
    "--corner",
    type=click.Choice(["top-left", "bottom-right"]),
    help="Where the causal diagonal starts when there are more keys than queries.",
)
@click.option(
    "--window", type=click.IntRange(1), help="Keys a query may see in a sliding window, itself included."
)
@click.option("--scale", type=float, help="Factor on the scores; without it 1/sqrt(d_head).")
@click.option(
    "--max-score", type=click.FloatRange(0), help="Largest |score| in use; a finite fill must exceed it."
)
@click.option(
    "--empty-rows",
    type=click.Choice(["nan", "zero", "uniform", "raises"]),
    help="What a row that may look nowhere returns.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float64", "float32", "float16", "bfloat16"]),
    help="The dtype it is judged in; without it float32.",
)
@click.option("--device", help="Where it is judged, e.g. cuda; without it on the CPU.")
@click.option(
    "--init", default="", metavar="K=V,...", help="Arguments of a class, e.g. d_model=32,num_heads=4."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds for one file.",
)
@click.option("--select", multiple=True, metavar="RULES", help="Only these: codes, their beginnings, names.")
@click.option("--ignore", multiple=True, metavar="RULES", help="Not these; they are only counted.")
@click.option(
    "--if-any",
    is_flag=True,
    help="Pass over files without attention as in a folder; none at all is no error.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    default="text",
    show_default=True,
    help="For people, for tools, or a page.",
)
@click.option("--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write the report there.")
@no_color_option
def command(paths: tuple[str, ...], form: str, output: str | None, no_color: bool, **asked: Any) -> None:
    """Check the attention in each PATH: a file, only NAME in it, or what a folder holds.

    A file runs in a guarded child process: a seat belt, not a sandbox against malice.
    Options state what the code promises; what is not stated is found out by trying.
    What is said in [tool.softlookup] of pyproject.toml holds where no option says otherwise.

    Exit status: 0 all clean, 1 a finding, 2 the request could not be carried out.
    """
    project = nearest(split_name(path)[0] for path in paths)
    if not _given("form"):
        form = project.form or form
    if not _given("timeout"):
        asked["timeout"] = project.timeout or asked["timeout"]
    selection = _selection(project, asked.pop("select"), asked.pop("ignore"))
    run = CheckRun(project, selection, if_any=asked.pop("if_any"))
    request = _request(asked)
    wanted = run.wanted(paths)
    with progress(len(wanted)) as say:
        run.check(wanted, request, say)
    for words in (*run.problems, *run.warnings):
        click.echo(words, err=True)
    several = len(paths) > 1 or any(os.path.isdir(path) for path in paths)
    if run.reports or several or form not in {"text", "json"}:
        _hand_out(run, form, output, several=several, no_color=no_color)
    wrong = any(not it.clean for report in run.reports for it in report.diagnoses)
    click.get_current_context().exit(FAILED if run.problems else FOUND if wrong else CLEAN)


def _given(option: str) -> bool:
    """Say whether the user wrote this option, even with the value it has without."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def _selection(project: Configuration, select: tuple[str, ...], ignore: tuple[str, ...]) -> Selection:
    """Return what is selected on the command line; what it leaves open, the project says."""
    return Selection(
        known_words(select, "--select") or project.selection.select,
        known_words(ignore, "--ignore") or project.selection.ignore,
    )


def _request(asked: dict[str, Any]) -> Request:
    """Return what the options declare and ask for."""
    given = {name: value for name, value in asked.items() if value is not None}
    init = _init_arguments(given.pop("init"))
    settings: dict[str, Any] = {name: given.pop(name) for name in ("timeout", "device") if name in given}
    return Request(Contract(**given, declared=frozenset(given)), init, settings)


def _hand_out(run: CheckRun, form: str, output: str | None, *, several: bool, no_color: bool) -> None:
    """Print the report, or write it and print its last lines."""
    sources = {it.file: Path(it.file).read_text(encoding="utf-8", errors="replace") for it in run.reports}
    if form == "text":
        from softlookup.report.terminal import reports_renderable

        shown = reports_renderable(run.reports, sources)
        if output is None:
            show(shown, no_color=no_color)
        else:
            _write(output, plain_text(shown))
    else:
        root = os.getcwd()
        text = render(form, run.reports, sources, root=root, several=several, ignored=run.ignored)
        if output is None:
            if text:
                click.echo(text)
            return
        _write(output, text + "\n" if text else text)
    from softlookup.report.terminal import closing_renderable

    show(closing_renderable(run.reports, run.ignored, run.passed_over()), no_color=no_color)


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as problem:
        raise SoftlookupError(
            f"check: the report could not be written to {file!r}.",
            expected="a file in a folder that exists",
            got=str(problem),
        ) from None


def _init_arguments(text: str) -> dict[str, object]:
    """Read ``d_model=32,num_heads=4``: values are Python literals, a bare word is a text.

    Raises: SoftlookupError when the text is not a list of name=value.
    """
    try:
        call = ast.parse(f"dict({text})", mode="eval").body
        assert isinstance(call, ast.Call)  # by construction, unless the text closes the bracket
        if call.args or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError(text)
        return {
            str(keyword.arg): keyword.value.id
            if isinstance(keyword.value, ast.Name)
            else ast.literal_eval(keyword.value)
            for keyword in call.keywords
        }
    except (SyntaxError, ValueError, AssertionError):
        raise SoftlookupError(
            "check: --init could not be read.",
            expected="name=value pairs with a comma between them",
            got=repr(text),
            hint="--init d_model=32,num_heads=4",
        ) from None
