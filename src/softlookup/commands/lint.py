"""Read code without running it, and point at known traps."""

from __future__ import annotations

import os
from pathlib import Path

import click

from softlookup.configuration import nearest
from softlookup.console import CLEAN, FAILED, FOUND, no_color_option, show
from softlookup.terms import SoftlookupError

_FORMS = ("text", "json", "github", "sarif")


@click.command("lint")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--select", multiple=True, metavar="LINTS", help="Only these: codes, their beginnings, names.")
@click.option("--ignore", multiple=True, metavar="LINTS", help="Not these.")
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMS),
    default="text",
    show_default=True,
    help="For people, or for tools.",
)
@click.option("--list", "list_them", is_flag=True, help="List every lint and stop.")
@no_color_option
def command(
    paths: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    form: str,
    list_them: bool,
    no_color: bool,
) -> None:
    """Read the Python files in each PATH, without importing them, and point at known traps around attention.

    A folder is searched without hidden files, installed packages and tests. A comment
    `# softlookup: ignore[SL801]` silences a line; what [tool.softlookup] of pyproject.toml
    excludes is left out here too.

    Exit status: 0 no hit, 1 a hit, 2 the request could not be carried out.
    """
    from softlookup.lint import showing
    from softlookup.lint.choosing import chosen
    from softlookup.lint.running import lint_files, python_files

    if list_them:
        show(showing.lints_renderable(), no_color=no_color)
        return
    if not paths:
        raise SoftlookupError(
            "lint: no path was given.", expected="files or folders", hint="softlookup lint src"
        )
    wanted = chosen(select, ignore)
    exclusion = nearest(paths).exclusion
    files = list(dict.fromkeys(file for path in paths for file in python_files(path, exclusion)))
    linted = lint_files(files, wanted)
    if form == "json":
        click.echo(showing.as_json(linted))
    else:
        sources = {
            it.file: Path(it.file).read_text(encoding="utf-8", errors="replace") for it in linted if it.found
        }
        if form == "text":
            show(showing.hits_renderable(linted, sources), no_color=no_color)
            show(showing.closing_line(linted), no_color=no_color)
        else:
            from softlookup.report.forms import render

            if text := render(form, showing.file_reports(linted), sources, root=os.getcwd()):
                click.echo(text)
    nothing_read = bool(linted) and all(it.skipped for it in linted)
    hit = any(it.found for it in linted)
    click.get_current_context().exit(FAILED if nothing_read else FOUND if hit else CLEAN)
