"""A report for people: rich in a terminal, and the same words without colour or in a pipe.

Nothing is said by colour alone, our own signs are ASCII, and the user's text loses its control characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from softlookup.report.finding_parts import Pair, excerpt, facts, pairs
from softlookup.report.matrices import beside
from softlookup.report.plain_words import all_clean, closing_words, describe, printable, verdict_words
from softlookup.terms import Diagnosis, FileReport, Finding

_LABEL_WIDTH = 10


def reports_renderable(reports: Sequence[FileReport], sources: Mapping[str, str]) -> RenderableType:
    """Return everything about all files; ``sources``: file -> its text, for the excerpts."""
    return Group(*(file_renderable(report, sources.get(report.file, "")) for report in reports))


def file_renderable(report: FileReport, source: str = "") -> RenderableType:
    """Return everything about one file; ``source`` is its text, for the excerpts."""
    lines = source.splitlines()
    parts: list[RenderableType] = []
    for diagnosis in report.diagnoses:
        parts += [_target(diagnosis, report.file, lines), Text("")]
    if report.skipped:
        parts += [_skipped(report), Text("")]
    return Group(*parts)


def closing_line(reports: Sequence[FileReport], ignored: int = 0) -> Text:
    """Return the last line: how many targets, how many findings, and how many of them were to be ignored."""
    style = "bold green" if all_clean(reports) else "bold red"
    return Text(closing_words(reports, ignored), style=style)


def closing_renderable(
    reports: Sequence[FileReport], ignored: int = 0, passed_over: str = ""
) -> RenderableType:
    """Return the last lines: what a search passed over where it did, then the counts."""
    last = closing_line(reports, ignored)
    return Group(Text(passed_over, style="dim"), last) if passed_over else last


def _target(diagnosis: Diagnosis, file: str, lines: list[str]) -> RenderableType:
    style = "bold green" if diagnosis.clean else "bold red"
    where = f"{file}:{diagnosis.line}" if diagnosis.line else file
    head = Text.assemble(
        (printable(diagnosis.name), "bold"),
        "  ",
        (verdict_words(diagnosis), style),
        (f"  {diagnosis.kind}  {printable(where)}", "dim"),
    )
    parts: list[RenderableType] = [head, _indented(_contract(diagnosis), 2)]
    for finding in diagnosis.findings:
        parts += [Text(""), _indented(_finding(finding, lines), 2)]
    if diagnosis.notes:
        parts += [Text(""), _indented(_notes(diagnosis.notes), 2)]
    return Group(*parts)


def _contract(diagnosis: Diagnosis) -> RenderableType:
    declared, measured = describe(diagnosis.contract)
    table = _labelled()
    if diagnosis.contract.arguments:
        call = f"{diagnosis.name.rpartition('.')[2]}({diagnosis.contract.arguments})"
        table.add_row("called", printable(call))
    if declared:
        table.add_row("declared", "; ".join(declared))
    if measured:
        table.add_row("measured", "; ".join(measured))
    return table


def _finding(finding: Finding, lines: list[str]) -> RenderableType:
    head = Text.assemble((finding.code, "bold red"), " ", (finding.name, "bold"))
    if finding.line:
        head.append(f"  line {finding.line}")
    parts: list[RenderableType] = [head, Text(printable(finding.summary))]
    if finding.line and finding.line <= len(lines):
        parts += [Text(""), _indented(Excerpt(lines, finding.line), 2)]
    for pair in pairs(finding.evidence):
        drawing = Group(Text(printable(pair.title), style="dim"), Beside(pair))
        parts += [Text(""), _indented(drawing, 2)]
    table = _labelled()
    for label, value in facts(finding):
        table.add_row(label, Text(printable(value)))
    return Group(*parts, Text(""), table)


def _notes(notes: Sequence[Finding]) -> RenderableType:
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column("code", no_wrap=True)
    table.add_column("words")
    for note in notes:
        table.add_row(note.code, Text.assemble((note.name, "bold"), f": {printable(note.summary)}"))
    return Group(Text("Notes, measured and not held against it"), table)


def _skipped(report: FileReport) -> RenderableType:
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("reason")
    for it in report.skipped:
        place = f" (line {it.line})" if it.line else ""
        table.add_row(printable(it.name) + place, Text(printable(it.reason)))
    return Group(Text(f"Looked at and skipped in {printable(report.file)}"), _indented(table, 2))


class Beside:
    """Your matrix beside the right one, as far as the width allows."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw both."""
        pair, titles = self.pair, ("yours", "right")
        sums = pair.of == "weights"
        for line in beside(titles, pair.yours, pair.right, sums=sums, width=options.max_width):
            yield _uncut(line)


class Excerpt:
    """Some lines of source around the wrong one, which carries a ``>``; cut at the width, not wrapped."""

    def __init__(self, lines: Sequence[str], wrong: int) -> None:
        self.lines = lines
        self.wrong = wrong

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the lines that fit."""
        shown = excerpt(self.lines, self.wrong)
        digits = len(str(shown[-1][0]))
        for number, text in shown:
            sign = ">" if number == self.wrong else " "
            line = f"{sign} {number:{digits}} | {printable(text)}".rstrip()
            if len(line) > options.max_width:
                line = line[: options.max_width - 3] + "..."
            yield _uncut(line, "bold red" if number == self.wrong else "dim")


def _uncut(line: str, style: str = "") -> Text:
    return Text(line, style=style, no_wrap=True, overflow="ignore")


def _labelled() -> Table:
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column("label", style="dim", min_width=_LABEL_WIDTH)
    table.add_column("value", overflow="fold")
    return table


def _indented(renderable: RenderableType, by: int) -> Padding:
    return Padding(renderable, (0, 0, 0, by))
