"""Count what one attention layer stores and computes."""

from __future__ import annotations

import json
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
@click.option("--dropout", "dropout_p", type=float, default=0.0, show_default=True, help="On the weights.")
@click.option("--device", default="cpu", show_default=True, help="Where the kernel would run, e.g. cuda.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="For people or tools."
)
def command(device: str, form: str, **sizes: Any) -> None:
    """Count what one attention layer stores and computes, and say which kernel PyTorch picks here."""
    from softlookup.cost import Workload, cost_json, cost_report

    workload = Workload(**sizes)
    click.echo(
        json.dumps(cost_json(workload, device), indent=2) if form == "json" else cost_report(workload, device)
    )
