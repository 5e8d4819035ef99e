"""Change attention in a model, and see what that changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from softlookup.console import CLEAN, no_color_option, progress, show
from softlookup.terms import SoftlookupError

_METRICS = ("logit_difference", "loss", "kl", "total_variation", "change")


@click.command("experiment")
@click.argument("path", metavar="MODEL")
@click.option("--text", "texts", multiple=True, metavar="TEXT", help="An input; give several.")
@click.option("--texts", "file", type=click.Path(path_type=Path), help="A file with an input on every line.")
@click.option("--ablate", multiple=True, metavar="LAYER:HEAD[:mean]", help="A head finds zeros, or its mean.")
@click.option("--remove", multiple=True, metavar="KEY[@LAYER[:HEAD]]", help="Nobody looks at this position.")
@click.option(
    "--map", "maps", multiple=True, metavar="NAME@LAYER:HEAD", help="uniform, previous or permuted."
)
@click.option("--scale", multiple=True, metavar="FACTOR@LAYER:HEAD", help="Multiply the logits of a head.")
@click.option("--token", multiple=True, metavar="POSITION=TOKEN", help="Another token in every input.")
@click.option("--control", metavar="LAYER:HEAD", help="The same done to this head, to compare with.")
@click.option("--metric", type=click.Choice(_METRICS), help="What is measured.")
@click.option("--target", metavar="TOKEN", help="Whose logit; without it the likeliest.")
@click.option("--against", metavar="TOKEN", help="Less the logit of this; without it the next likeliest.")
@click.option(
    "--verdict", "verdicts", multiple=True, metavar="LAYER:HEAD:QUERY", help="Is this row faithful?"
)
@click.option("--level", type=float, default=0.95, show_default=True, help="Of the intervals.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="For people or tools."
)
@no_color_option
@click.pass_context
def command(context: click.Context, /, path: str, form: str, no_color: bool, **asked: Any) -> None:
    """Run MODEL on texts with attention changed, and say what that changes, and how sure it is.

    MODEL is a folder of Hugging Face with a config.json, a .gguf file, or FILE.py:factory. A Python file is
    run, without limits. Texts are read by the tokenizer in the same folder; without one, a text is ids, e.g.
    "3 1 4". LAYER is a path, or a number from 0.

    One text says nothing about others: an interval at 95 % needs six. Exit status: 0 done, 2 not possible.
    """
    from softlookup.experiment_run import ExperimentRun
    from softlookup.report.experiment_text import experiment_renderable

    texts = _inputs(asked["texts"], asked["file"])
    changes = any(asked[it] for it in ("ablate", "remove", "maps", "scale", "token"))
    with progress(1 + changes + len(asked["verdicts"])) as say:
        say(f"loading {path}")
        facts = ExperimentRun(path, texts, asked).facts(say)
    if form == "json":
        click.echo(json.dumps(facts, indent=2))
    else:
        show(experiment_renderable(facts), no_color=no_color)
        click.echo(facts["python"])
    context.exit(CLEAN)


def _inputs(texts: Sequence[str], file: Path | None) -> list[str]:
    lines: list[str] = []
    if file is not None:
        try:
            lines = [it for it in file.read_text(encoding="utf-8").splitlines() if it.strip()]
        except (OSError, UnicodeDecodeError) as problem:
            raise SoftlookupError(
                f"experiment: {str(file)!r} could not be read.", got=str(problem)
            ) from problem
    if not texts and not lines:
        raise SoftlookupError(
            "experiment: there is no text to give to the model.",
            expected="--text TEXT, once or more, or --texts FILE",
            got="none",
            hint='--text "The capital of France is"',
        )
    return [*texts, *lines]
