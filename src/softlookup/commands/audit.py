"""Audit a whole model: causality, padding, cache, packing, loss."""

from __future__ import annotations

import click

from softlookup.console import CLEAN, FOUND, no_color_option, show


@click.command("audit")
@click.argument("path", metavar="PATH_OR_FACTORY")
@click.option(
    "--causal/--not-causal",
    default=None,
    help="What the model promises; without it this is read off the model.",
)
@click.option("--packed", is_flag=True, help="Position ids that start anew must keep packed documents apart.")
@click.option("--compiled", is_flag=True, help="Ask compiled paths too; needs a C++ compiler and minutes.")
@click.option("--all", "every", is_flag=True, help="Also name every check that was asked, or made no sense.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people or tools.",
)
@no_color_option
def command(path: str, causal: bool | None, form: str, every: bool, no_color: bool, **asked: bool) -> None:
    """Ask a whole model what attention must answer in one way, and name rule and layer where it does not.

    PATH_OR_FACTORY is FILE.py:factory, where factory is a function or class without arguments; a folder of
    Hugging Face with a config.json; or a .gguf file. A Python file is run, in this process and without
    limits: audit only files that you would run.

    Exit status: 0 nothing wrong, 1 a finding, 2 the request could not be carried out.
    """
    from softlookup.auditing import audit
    from softlookup.auditing.loading import loaded_model
    from softlookup.report.audit_json import json_of
    from softlookup.report.audit_text import audit_renderable

    result = audit(loaded_model(path), causal=causal, packed=asked["packed"], compiled=asked["compiled"])
    if form == "json":
        click.echo(json_of(result, path))
    else:
        show(audit_renderable(result, every=every), no_color=no_color)
    click.get_current_context().exit(CLEAN if result.clean else FOUND)
