"""List every rule: code, name, what is wrong."""

import click

from softlookup.console import no_color_option, show


@click.command("rules")
@no_color_option
def command(no_color: bool) -> None:
    """List every rule: code, name, what is wrong."""
    from softlookup import catalog
    from softlookup.report.rule_page import rules_renderable

    show(rules_renderable(catalog.all_rules()), no_color=no_color)
