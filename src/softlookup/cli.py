"""The command line: a command is a file in ``commands/``, imported only when it is asked for.

The file name is the name of the command, the first line of its docstring is its line in ``--help``, and
``command`` in it is what runs. Exit status: 0 clean, 1 a finding, 2 the request could not be carried out.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from softlookup import __version__
from softlookup.console import FAILED
from softlookup.terms import SoftlookupError

_COMMANDS = Path(__file__).parent / "commands"


class _CommandFiles(click.Group):
    """Lists the files in ``commands/``; a SoftlookupError becomes its words and status 2, no traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return sorted(path.stem.replace("_", "-") for path in _COMMANDS.glob("[a-z]*.py"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None when there is no such file."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = import_module(f"softlookup.commands.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list in ``--help`` from the docstrings, without importing the files."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_line(name)) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except SoftlookupError as error:
            click.echo(str(error), err=True)
            ctx.exit(FAILED)


def _first_line(name: str) -> str:
    text = (_COMMANDS / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


@click.group(cls=_CommandFiles, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="softlookup")
def main() -> None:
    """Is this attention right, and if not, what exactly is wrong, and on which line?"""
