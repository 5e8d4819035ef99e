"""The page of one rule and the table of all, from the catalogue and drawings that were made beforehand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from softlookup.catalog import Entry
from softlookup.report.matrices import as_matrix, beside

PARTS = ("Missed because", "Training", "Ask", "Fix")


def introduction(entry: Entry) -> list[str]:
    """Return the paragraphs of the page before its first named part, each on one line."""
    before = re.split(r"^(?:Missed because|Training|Ask|Fix|Seen in):", entry.page, maxsplit=1, flags=re.M)[0]
    return [" ".join(paragraph.split()) for paragraph in before.strip().split("\n\n") if paragraph.strip()]


def seen_in(entry: Entry) -> list[str]:
    """Return the public reports, one text each."""
    return [
        text.strip(" ,") for text in re.split(r",\s+(?=https?://)", entry.part("Seen in")) if text.strip(" ,")
    ]


def drawing_lines(drawing: dict[str, Any] | None) -> list[str]:
    """Return the lines of a rule's drawing: its case, then the wrong matrix beside the right one."""
    if drawing is None:
        return []
    wrong, right = as_matrix(drawing["wrong"]), as_matrix(drawing["right"])
    if wrong is None or right is None:
        return []
    lines = beside(("wrong", "right"), wrong, right, sums=drawing["of"] == "weights")
    return [f"{drawing['of']}, {drawing['case']}", *lines]


def page_renderable(entry: Entry, drawing: dict[str, Any] | None = None) -> RenderableType:
    """Return the page: what it does, wrong beside right, why it is missed, training, fix, public reports."""
    parts: list[RenderableType] = [
        Text.assemble((entry.code, "bold red"), " ", (entry.name, "bold")),
        Text(""),
    ]
    for paragraph in introduction(entry):
        parts += [Text(paragraph), Text("")]
    if lines := drawing_lines(drawing):
        drawn = Group(*(Text(line, no_wrap=True, overflow="ignore") for line in lines))
        parts += [Padding(drawn, (0, 0, 0, 2)), Text("")]
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column("label", style="bold", no_wrap=True)
    table.add_column("words", overflow="fold")
    for title in PARTS:
        if words := entry.part(title):
            table.add_row(title, Text(words))
    # Outside the table, which would break addresses at its width.
    label = len(PARTS[0]) + 2
    reports = [
        Text.assemble(("" if number else "Seen in", "bold"), " " * (label if number else label - 7), text)
        for number, text in enumerate(seen_in(entry))
    ]
    for report in reports:
        report.no_wrap, report.overflow = True, "ignore"
    return Group(*parts, table, *reports)


def rules_renderable(entries: Sequence[Entry]) -> RenderableType:
    """Return the table of all rules."""
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column("code", no_wrap=True)
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("summary", overflow="fold")
    for entry in entries:
        table.add_row(entry.code, entry.name, Text(entry.summary))
    return table
