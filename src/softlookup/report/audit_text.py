"""An audit for people: what is wrong, with layer, numbers and fix; notes; what was not asked, and why."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from softlookup.audited import Audit, Found, place
from softlookup.report.plain_words import printable


def audit_renderable(audit: Audit, *, every: bool = False) -> RenderableType:
    """Return the report. every: also name each check that was asked, and each that made no sense."""
    sizes = ", ".join(f"{size} {name}" for name, size in audit.sizes.items())
    parts: list[RenderableType] = [
        Text.assemble((printable(audit.model), "bold"), f"  called {audit.how}, {sizes}"),
        Text(""),
    ]
    for finding in audit.findings:
        parts += [_finding(finding), Text("")]
    if audit.notes:
        notes = [(it.code, f"{it.check}: {it.words}") for it in audit.notes]
        parts += [Text("Notes, measured and not held against it"), _table(notes), Text("")]
    if audit.failed:
        parts += [Text("Could not be asked: the model raised"), _table(audit.failed.items()), Text("")]
    if every:
        parts += [Text("Asked"), Padding(Text(", ".join(audit.asked)), (0, 0, 0, 2)), Text("")]
        parts += [Text("Made no sense here"), _table(audit.not_asked.items()), Text("")]
    return Group(*parts, Text(closing_words(audit), style="bold green" if audit.clean else "bold red"))


def closing_words(audit: Audit) -> str:
    """Return the last line: how many findings, in how many checks."""
    count = len(audit.findings)
    found = "nothing wrong" if not count else f"{count} finding{'s' if count > 1 else ''}"
    failed = f", {len(audit.failed)} could not be asked" if audit.failed else ""
    skipped = f"; {len(audit.not_asked)} made no sense here" if audit.not_asked else ""
    return f"{found} in {len(audit.asked)} checks{failed}{skipped} ({audit.seconds:.1f} s)"


def _finding(finding: Found) -> RenderableType:
    head = Text.assemble((finding.code, "bold red"), " ", (finding.name, "bold"), f"  {finding.check}")
    rows = [("layer", place(finding.layer))]
    rows += [
        (name, f"{value:g}" if isinstance(value, float) else str(value))
        for name, value in finding.measured.items()
    ]
    rows += [("fix", finding.fix)] if finding.fix else []
    return Group(head, Padding(Text(printable(finding.words)), (0, 0, 0, 2)), _table(rows))


def _table(rows: object) -> RenderableType:
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column("label", style="dim", no_wrap=True)
    table.add_column("words", overflow="fold")
    for label, words in rows:  # type: ignore[attr-defined]
        table.add_row(printable(label), Text(printable(words)))
    return Padding(table, (0, 0, 0, 2))
