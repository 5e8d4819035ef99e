"""Print the page of a rule."""

import json
from pathlib import Path

import click

from softlookup.console import no_color_option, show

_DRAWINGS = Path(__file__).parent.parent / "checker" / "drawings.json"


@click.command("explain")
@click.argument("rule", metavar="NAME|CODE")
@no_color_option
def command(rule: str, no_color: bool) -> None:
    """Print the page of a rule: what it is, wrong beside right, why it is missed, the fix, public reports."""
    from softlookup.catalog import find_rule

    entry = find_rule(rule)
    from softlookup.report.rule_page import page_renderable

    drawings = json.loads(_DRAWINGS.read_text(encoding="utf-8")) if _DRAWINGS.exists() else {}
    show(page_renderable(entry, drawings.get(entry.name)), no_color=no_color)
