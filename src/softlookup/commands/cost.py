"""Count what one attention layer stores and computes."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click


@click.command("cost")
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
@click.option(
    "--attend",
    "mask_in_words",
    metavar="MASK",
    help='Also say which way `attend` goes with this mask, e.g. "causal & sliding_window(256)".',
)
@click.option("--dropout", "dropout_p", type=float, default=0.0, show_default=True, help="On the weights.")
@click.option("--device", default="cpu", show_default=True, help="Where the kernel would run, e.g. cuda.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="For people or tools."
)
def command(device: str, form: str, mask_in_words: str | None, **sizes: Any) -> None:
    """Count what one attention layer stores and computes, and say which kernel PyTorch picks here."""
    from softlookup.cost import Workload, cost_json, cost_report
    from softlookup.path_cost import mask_cost, mask_report

    workload = Workload(**sizes)
    if form == "json":
        facts = cost_json(workload, device)
        if mask_in_words is not None:
            facts["attend"] = asdict(mask_cost(workload, mask_in_words, device))
        click.echo(json.dumps(facts, indent=2))
        return
    sections = [cost_report(workload, device)]
    if mask_in_words is not None:
        sections.append(mask_report(workload, mask_in_words, device))
    click.echo("\n\n".join(sections))
