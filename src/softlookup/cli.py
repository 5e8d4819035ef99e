"""The command line. The only module that reads argv, prints and exits.

Imports are inside the commands: ``--help``, ``rules`` and ``explain`` never pay for torch.
Exit status: 0 clean, 1 a finding, 2 the request could not be carried out.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from softlookup import __version__
from softlookup.terms import Contract, FileReport, SoftlookupError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

CLEAN, FOUND, FAILED = 0, 1, 2
_DRAWINGS = Path(__file__).parent / "checker" / "drawings.json"


class _Words(click.Group):
    """Commands answer a SoftlookupError with its words and exit status 2, never with a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except SoftlookupError as error:
            click.echo(str(error), err=True)
            ctx.exit(FAILED)


@click.group(cls=_Words, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="softlookup")
def main() -> None:
    """Is this attention right, and if not, what exactly is wrong, and on which line?"""


@main.command()
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
@click.option("--no-color", is_flag=True, help="Plain text; the NO_COLOR environment variable does the same.")
def check(
    files: tuple[str, ...],
    init: str,
    timeout: float,
    form: str,
    no_color: bool,
    **promised: Any,
) -> None:
    """Check the attention in each FILE, or only NAME in it.

    The file runs in a guarded child process: a seat belt, not a sandbox against malice.
    Options state what the code promises; what is not stated is found out by trying.

    Exit status: 0 all clean, 1 a finding, 2 the request could not be carried out.
    """
    contract = _contract(promised)
    arguments = _init_arguments(init)
    reports: list[FileReport] = []
    failed = False
    for file in files:
        path, name = _split_name(file)
        try:
            reports.append(_check_file(path, name, contract, arguments, timeout))
        except SoftlookupError as error:
            click.echo(str(error), err=True)
            failed = True
    if reports or len(files) > 1:
        _show(reports, several=len(files) > 1, form=form, no_color=no_color)
    failed = failed or any(not report.diagnoses for report in reports)
    found = any(not diagnosis.clean for report in reports for diagnosis in report.diagnoses)
    click.get_current_context().exit(FAILED if failed else FOUND if found else CLEAN)


@main.command()
@click.argument("rule", metavar="NAME|CODE")
@click.option("--no-color", is_flag=True, help="Plain text; the NO_COLOR environment variable does the same.")
def explain(rule: str, no_color: bool) -> None:
    """Print the page of a rule: what it is, wrong beside right, why it is missed, the fix, public reports."""
    from softlookup.catalog import find_rule

    entry = find_rule(rule)
    from softlookup.report.rule_page import page_renderable

    drawings = json.loads(_DRAWINGS.read_text(encoding="utf-8")) if _DRAWINGS.exists() else {}
    _print(page_renderable(entry, drawings.get(entry.name)), no_color=no_color)


@main.command()
@click.option("--no-color", is_flag=True, help="Plain text; the NO_COLOR environment variable does the same.")
def rules(no_color: bool) -> None:
    """List every rule: code, name, what is wrong."""
    from softlookup import catalog
    from softlookup.report.rule_page import rules_renderable

    _print(rules_renderable(catalog.rules()), no_color=no_color)


@main.command("cost")
@click.option("--batch", type=int, required=True, help="Independent samples, B.")
@click.option("--heads", type=int, required=True, help="Query heads, H.")
@click.option("--tokens", type=int, required=True, help="Tokens of one sample, T.")
@click.option("--head-dim", type=int, required=True, help="Width of one head, d_head.")
@click.option(
    "--dtype",
    type=click.Choice(["float64", "float32", "float16", "bfloat16"]),
    default="bfloat16",
    show_default=True,
    help="The dtype of everything stored.",
)
@click.option("--kv-heads", type=int, help="Key/value heads; without it as many as query heads.")
@click.option("--causal", is_flag=True, help="A query sees no later key.")
@click.option("--mask", is_flag=True, help="A dense mask tensor is handed over.")
@click.option("--dropout", "dropout_p", type=float, default=0.0, show_default=True, help="On the weights.")
@click.option("--device", default="cpu", show_default=True, help="Where the kernel would run, e.g. cuda.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="For people or tools."
)
def count_cost(device: str, form: str, **sizes: Any) -> None:
    """Count what one attention layer stores and computes, and say which kernel PyTorch picks here."""
    from softlookup.cost import Workload, cost_json, cost_report

    workload = Workload(**sizes)
    click.echo(
        json.dumps(cost_json(workload, device), indent=2) if form == "json" else cost_report(workload, device)
    )


def _check_file(
    path: str, name: str | None, contract: Contract, init: dict[str, object], timeout: float
) -> FileReport:
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
    return check_file(path, name, contract=contract, init=init, timeout=timeout)


def _show(reports: list[FileReport], *, several: bool, form: str, no_color: bool) -> None:
    if form == "json":
        from softlookup.report.as_json import render

        click.echo(render(reports, several=several))
        return
    from softlookup.report.terminal import closing_line, file_renderable

    for report in reports:
        source = Path(report.file).read_text(encoding="utf-8", errors="replace")
        _print(file_renderable(report, source), no_color=no_color)
    _print(closing_line(reports), no_color=no_color)


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


def _print(renderable: RenderableType, *, no_color: bool) -> None:
    """Print without the blanks that pad lines to the width: a pipe should not receive them."""
    console = _console(no_color)
    with console.capture() as captured:
        console.print(renderable, crop=False)
    for line in captured.get().splitlines():
        click.echo(line.rstrip(), color=True)  # rich has decided on colour already


def _console(no_color: bool) -> Console:
    """Return a console on stdout: plain in a pipe, with NO_COLOR and with --no-color."""
    from rich.console import Console

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a source line may hold what this terminal cannot show
    plain = no_color or bool(os.environ.get("NO_COLOR"))
    return Console(color_system=None if plain else "auto", highlight=False, markup=False, emoji=False)
