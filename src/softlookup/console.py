"""How every command ends and prints for people: plain in a pipe, with NO_COLOR and with --no-color."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

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


def _console(no_color: bool) -> Console:
    from rich.console import Console

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a source line may hold what this terminal cannot show
    plain = no_color or bool(os.environ.get("NO_COLOR"))
    return Console(color_system=None if plain else "auto", highlight=False, markup=False, emoji=False)
