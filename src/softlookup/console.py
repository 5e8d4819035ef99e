"""How every command ends and prints for people: plain in a pipe, with NO_COLOR and with --no-color."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_FILE_WIDTH = 110  # of a report for people that goes into a file

CLEAN, FOUND, FAILED = 0, 1, 2  # the exit status of every command

#: The option of every command that prints through here.
no_color_option = click.option(
    "--no-color", is_flag=True, help="Plain text; the NO_COLOR environment variable does the same."
)


def show(renderable: RenderableType, *, no_color: bool) -> None:
    """Print without the blanks that pad lines to the width: a pipe should not receive them."""
    console = _console(no_color)
    with console.capture() as captured:
        console.print(renderable, crop=False)
    for line in captured.get().splitlines():
        click.echo(line.rstrip(), color=True)  # rich has decided on colour already


def plain_text(renderable: RenderableType) -> str:
    """Return what ``show`` prints, without colour, for a file."""
    import io

    from rich.console import Console

    out = io.StringIO()
    console = Console(
        file=out, width=_FILE_WIDTH, color_system=None, highlight=False, markup=False, emoji=False
    )
    console.print(renderable, crop=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


@contextmanager
def progress(steps: int) -> Iterator[Callable[[str], None]]:
    """Give a function that says on a terminal's standard error what is at work; elsewhere it says nothing."""
    if steps < 2 or not sys.stderr.isatty():
        yield lambda words: None
        return
    from rich.console import Console
    from rich.text import Text

    done = count(1)
    with Console(stderr=True).status("") as status:
        yield lambda words: status.update(Text(f"{next(done)} of {steps}  {words}"))


def _console(no_color: bool) -> Console:
    from rich.console import Console

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a source line may hold what this terminal cannot show
    plain = no_color or bool(os.environ.get("NO_COLOR"))
    return Console(color_system=None if plain else "auto", highlight=False, markup=False, emoji=False)
