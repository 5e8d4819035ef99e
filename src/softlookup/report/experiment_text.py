"""An experiment for people: what was done, its effect on every input, and the verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from softlookup.report.plain_words import printable

_KEYS = 8  # of a row that are shown
_TEXT = 34  # characters of an input
_LEGEND = (
    "Sizes of the effects. Hidden: before the softmax, the weight goes to other keys. Silenced: the share of"
    " the key is taken out, and the others keep theirs."
)
_STYLES = {"faithful": "bold green", "misleading": "bold red", "not shown": "bold"}


def experiment_renderable(facts: Mapping[str, Any]) -> RenderableType:
    """Return the report; the Python, which must not be wrapped, is left to the caller.

    facts: ``model`` and its ``layers``; ``inputs``, each with ``text``, ``tokens`` and ``predicts``, the two
        likeliest next tokens where their logits are measured; ``effect``, as ``Effect.as_dict`` says it, or
        None; ``verdicts``, as ``Verdict.as_dict`` says them
    """
    inputs = facts["inputs"]
    count = f"{len(inputs)} input{'s' if len(inputs) != 1 else ''}"
    parts: list[RenderableType] = [
        Text.assemble(
            (printable(facts["model"]), "bold"), f"  {facts['layers']} layers of attention, {count}"
        ),
        Text(""),
    ]
    if facts["effect"] is not None:
        parts += [*_effect(facts["effect"], inputs), Text("")]
    for verdict in facts["verdicts"]:
        parts += [*_verdict(verdict, inputs), Text("")]
    return Group(*parts, Text("the same in Python", style="bold"))


def _effect(effect: Mapping[str, Any], inputs: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    control = effect["control_values"]
    rows = [("done", it) for it in effect["interventions"]] + [("control", it) for it in effect["control"]]
    predicts = any(it["predicts"] for it in inputs)
    columns = ["input", *(["logit of, less of"] if predicts else []), "unchanged", "changed", "effect"]
    table = _table([*columns, *(["control"] if control else [])])
    for number, (before, value) in enumerate(zip(effect["unchanged"], effect["values"], strict=True)):
        numbers = [f"{before:.4g}", f"{before + value:.4g}", f"{value:+.4g}"]
        numbers += [f"{control[number]:+.4g}"] if control else []
        numbers[:0] = [printable(", ".join(map(repr, inputs[number]["predicts"])))] if predicts else []
        table.add_row(Text(_short(inputs[number]["text"])), *map(Text, numbers))
    return [
        _labelled([*rows, ("measured", effect["metric"])]),
        Text(""),
        Padding(table, (0, 0, 0, 2)),
        Text(""),
        Text(printable(effect["words"])),
    ]


def _verdict(verdict: Mapping[str, Any], inputs: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    row, tokens = verdict["rows"][0], inputs[0]["tokens"]
    query = f"query {row['query']}{_token(tokens, row['query'])}"
    head = f"{verdict['layer'] or 'the model'}, head {verdict['head']}, {query}"
    more = (
        [] if len(verdict["rows"]) == 1 else [Text(f"  of input 0; {len(verdict['rows'])} inputs were asked")]
    )
    return [
        Text.assemble((printable(head), "bold"), "  measured: ", printable(verdict["metric"])),
        Text(printable(verdict["words"]), style=_STYLES[verdict["word"]]),
        Text(""),
        Padding(_keys(row, tokens), (0, 0, 0, 2)),
        *more,
        Text(""),
        Text(_LEGEND, style="dim"),
        Text(""),
        Padding(_variants(verdict), (0, 0, 0, 2)),
        Text(""),
        _labelled(_baselines(verdict)),
    ]


def _keys(row: Mapping[str, Any], tokens: Sequence[str]) -> Table:
    """The heaviest keys of the first input, and what removing them does."""
    table = _table(["key", "weight", "hidden", "silenced"])
    order = sorted(range(len(row["keys"])), key=lambda it: -row["weights"][it])
    for it in order[:_KEYS]:
        names = ", ".join(f"{key}{_token(tokens, key)}" for key in row["keys"][it][:3])
        more = " ..." if len(row["keys"][it]) > 3 else ""
        numbers = [f"{row['weights'][it]:.3f}", f"{row['hidden'][it]:.3g}", f"{row['silenced'][it]:.3g}"]
        table.add_row(Text(printable(names + more)), *numbers)
    left = len(order[_KEYS:]) + row["left_out"]
    if left:
        table.add_row(Text(f"and {left} lighter ones"))
    return table


def _variants(verdict: Mapping[str, Any]) -> Table:
    table = _table(["rank correlation with the effect of", "hiding a key", "silencing it", ""])
    for it in verdict["variants"]:
        table.add_row(Text(it["name"]), _number(it["hidden"]), _number(it["silenced"]), Text(it["why"]))
    return table


def _number(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "-"
    between = "" if found["interval"] is None else "  [{:+.2f}, {:+.2f}]".format(*found["interval"])
    return f"{found['mean']:+.2f}{between}"


def _baselines(verdict: Mapping[str, Any]) -> list[tuple[str, str]]:
    own = verdict["variants"][0]["hidden"]
    area, beaten = verdict["area"]["mean"], verdict["orders_beaten"]
    curve = f"{area:+.2f} area over random orders, {100 * beaten:.0f} % of them beaten"
    return [
        ("removal curve", curve),
        (
            "other maps",
            f"a uniform row changes {verdict['uniform']:.3g}, shuffled weights {verdict['shuffled']:.3g}",
        ),
        ("no key at all", f"changes {verdict['everything']:.3g}"),
        ("intervals", f"{100 * own['level']:g} %, {own['how']}"),
    ]


def _token(tokens: Sequence[str], position: int) -> str:
    return f" {tokens[position]!r}" if position < len(tokens) else ""


def _short(text: str) -> str:
    plain = printable(text)
    return plain if len(plain) <= _TEXT else plain[: _TEXT - 3] + "..."


def _table(columns: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in enumerate(columns):
        left = number == 0 or not name
        table.add_column(name, justify="left" if left else "right", no_wrap=not left, overflow="fold")
    return table


def _labelled(rows: Sequence[tuple[str, str]]) -> RenderableType:
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column("label", style="dim", no_wrap=True)
    table.add_column("words", overflow="fold")
    for label, words in rows:
        table.add_row(label, Text(printable(words)))
    return table
