"""Run a script and watch attention in its models."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

import click

from softlookup.console import CLEAN, FAILED, FOUND, no_color_option, show
from softlookup.terms import SoftlookupError


class WatchedScript(click.Command):
    """What stands behind "--" is for the script; without a "--", all that stands behind its name."""

    def parse_args(self, context: click.Context, words: list[str]) -> list[str]:
        """Give the script what is its own, and read the rest."""
        if "--" not in words:
            context.allow_interspersed_args = False
            return super().parse_args(context, words)
        own, theirs = words[: words.index("--")], words[words.index("--") + 1 :]
        try:
            super().parse_args(context, own)
            if context.params["args"]:
                raise click.UsageError(f"{context.params['args'][0]!r} is no option of the watch.", context)
        except click.UsageError as problem:
            words_of_it = f"{problem.format_message()} What is for the script stands behind the first --."
            raise click.UsageError(words_of_it, context) from problem
        context.params["args"] = tuple(theirs)
        return []


@click.command("watch", cls=WatchedScript)
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--rule", metavar="MASK", help='Who may look at whom in self-attention, e.g. "causal".')
@click.option("--every", type=int, default=1, show_default=True, help="Measure one step of so many.")
@click.option("--layers", multiple=True, metavar="PATTERN", help='Paths to measure, e.g. "*.layers.[0-3].*".')
@click.option("--queries", type=int, default=64, show_default=True, help="At most so many of a call; 0: all.")
@click.option("--save-to", type=click.Path(path_type=Path), help="Folder for a trace of every model.")
@click.option(
    "--show", "statistic", metavar="NUMBER", help='Draw it live on a terminal, e.g. "entropy_share".'
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="For people or tools."
)
@no_color_option
@click.pass_context
def command(
    context: click.Context, /, script: Path, args: tuple[str, ...], form: str, no_color: bool, **options: Any
) -> None:
    """Run SCRIPT with ARGS, and watch every call of attention in its models.

    The script runs in this process, with all that it does; nothing in it has to change. Options of the watch
    stand before it, or before a "--": softlookup watch train.py --rule causal -- --epochs 3. Exit status: 0
    no alarm, 1 an alarm, 2 the script failed.
    """
    from softlookup.live.ear import Asked
    from softlookup.live.measuring_calls import Sampling
    from softlookup.live.watching_scripts import watch_script
    from softlookup.masks.accept import whole_number
    from softlookup.masks.expression import read_mask_expression
    from softlookup.report.watch_summary import summary_json, summary_renderable

    whole_number("every", options["every"], at_least=1)
    whole_number("queries", options["queries"], at_least=0)
    rule = None if options["rule"] is None else _rule(read_mask_expression(options["rule"]))
    asked = Asked(
        rule, options["every"], list(options["layers"]) or None, Sampling(options["queries"] or None)
    )
    found = watch_script(script, args, asked, save_to=options["save_to"], show=options["statistic"])
    facts = [(name, trace.summary()) for name, trace in found.traces.items()]
    if found.failed is not None:
        traceback.print_exception(found.failed)
    if form == "json":
        click.echo(json.dumps(summary_json(facts, found.failed), indent=2))
    else:
        show(summary_renderable(facts, found.failed), no_color=no_color)
    alarms = any(it["alarms"] for _, it in facts)
    context.exit(FAILED if found.failed or found.status else FOUND if alarms else CLEAN)


def _rule(mask: Any) -> Any:
    """Refuse what adds to scores: a rule says who may look."""
    from softlookup.masks import Bias

    if isinstance(mask, Bias):
        raise SoftlookupError(
            "watch: --rule says who may look at whom.", expected="a mask", got="a bias, which adds to scores"
        )
    return mask
