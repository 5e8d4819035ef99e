"""Check the attention in files."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Any

import click

from softlookup.console import CLEAN, FAILED, FOUND, no_color_option, show
from softlookup.terms import Contract, FileReport, SoftlookupError


@click.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE[:NAME]...")
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
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people, or for tools.",
)
@no_color_option
def command(
    files: tuple[str, ...],
    init: str,
    form: str,
    no_color: bool,
    **asked: Any,
) -> None:
    """Check the attention in each FILE, or only NAME in it.

    The file runs in a guarded child process: a seat belt, not a sandbox against malice.
    Options state what the code promises; what is not stated is found out by trying.

    Exit status: 0 all clean, 1 a finding, 2 the request could not be carried out.
    """
    settings = {name: asked.pop(name) for name in ("timeout", "device")}
    settings = {name: value for name, value in settings.items() if value is not None}
    settings |= {"contract": _contract(asked), "init": _init_arguments(init)}
    reports: list[FileReport] = []
    failed = False
    for file in files:
        path, name = _split_name(file)
        try:
            reports.append(_check_file(path, name, settings))
        except SoftlookupError as error:
            click.echo(str(error), err=True)
            failed = True
    if reports or len(files) > 1:
        _show(reports, several=len(files) > 1, form=form, no_color=no_color)
    failed = failed or any(not report.diagnoses for report in reports)
    found = any(not diagnosis.clean for report in reports for diagnosis in report.diagnoses)
    click.get_current_context().exit(FAILED if failed else FOUND if found else CLEAN)


def _check_file(path: str, name: str | None, settings: dict[str, Any]) -> FileReport:
    """Check one file. The import waits until here: it is what brings torch."""
    if not Path(path).is_file():
        raise SoftlookupError(
            f"check: there is no file {path!r}.",
            expected="a Python file, or FILE:NAME for one definition in it",
            got=path,
            hint="give the path as seen from the current directory",
        )
    from softlookup.checker.files import check_file

    # torch says so when it is installed alone; nothing here needs numpy.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    return check_file(path, name, **settings)


def _show(reports: list[FileReport], *, several: bool, form: str, no_color: bool) -> None:
    if form == "json":
        from softlookup.report.as_json import render

        click.echo(render(reports, several=several))
        return
    from softlookup.report.terminal import closing_line, file_renderable

    for report in reports:
        source = Path(report.file).read_text(encoding="utf-8", errors="replace")
        show(file_renderable(report, source), no_color=no_color)
    show(closing_line(reports), no_color=no_color)


def _contract(promised: dict[str, Any]) -> Contract:
    """Return the contract that the options declare."""
    given = {name: value for name, value in promised.items() if value is not None}
    return Contract(**given, declared=frozenset(given))


def _split_name(file: str) -> tuple[str, str | None]:
    """Split FILE:NAME. A drive letter is no file, and a path that exists is taken whole."""
    path, colon, name = file.rpartition(":")
    if not colon or Path(file).exists() or not all(part.isidentifier() for part in name.split(".")):
        return file, None
    return path, name


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
