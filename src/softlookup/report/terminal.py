"""A report for people: rich in a terminal, and the same words without colour or in a pipe.

Nothing is said by colour alone, our own signs are ASCII, and the user's text loses its control characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from softlookup.report.matrices import Matrix, as_matrix, beside
from softlookup.report.plain_words import count, describe, printable, verdict_words
from softlookup.terms import Diagnosis, FileReport, Finding

_AROUND = 2  # lines of source shown before and after the wrong one
_LABEL_WIDTH = 10
_DRAWN = {"case", "shown", "allowed", "weights", "output", "probe"}  # what the drawings say already
_PAIRS = ("weights", "output")  # keys of the evidence that hold {"yours": matrix, "right": matrix}


def file_renderable(report: FileReport, source: str = "") -> RenderableType:
    """Return everything about one file; ``source`` is its text, for the excerpts."""
    lines = source.splitlines()
    parts: list[RenderableType] = []
    for diagnosis in report.diagnoses:
        parts += [_target(diagnosis, report.file, lines), Text("")]
    if report.skipped:
        parts += [_skipped(report), Text("")]
    return Group(*parts)


def closing_line(reports: Sequence[FileReport]) -> Text:
    """Return the last line: how many targets, how many findings."""
    diagnoses = [diagnosis for report in reports for diagnosis in report.diagnoses]
    findings = sum(len(diagnosis.findings) for diagnosis in diagnoses)
    notes = sum(len(diagnosis.notes) for diagnosis in diagnoses)
    clean = bool(diagnoses) and all(diagnosis.clean for diagnosis in diagnoses)
    words = [count(len(diagnoses), "target"), "clean" if clean else count(findings, "finding")]
    if notes:
        words.append(count(notes, "note"))
    return Text(", ".join(words), style="bold green" if clean else "bold red")


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
    for drawing in _drawings(finding.evidence):
        parts += [Text(""), _indented(drawing, 2)]
    table = _labelled()
    for label, value in _facts(finding):
        table.add_row(label, Text(printable(value)))
    return Group(*parts, Text(""), table)


def _facts(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield the labelled lines under a finding: facts first, then what to do."""
    for key, value in finding.evidence.items():
        if key == "shape" and not str(value)[:1].isalpha():
            continue  # which variant of the rule it was, where that is no word
        if key not in _DRAWN and key != "alternatives":
            yield key.replace("_", " "), _fact(value)
    if alternatives := finding.evidence.get("alternatives"):
        yield "or perhaps", f"{_fact(alternatives)} (the same answers)"
    if finding.consequence:
        yield "training", finding.consequence
    if finding.fix:
        yield "fix", finding.fix
    if finding.code not in {"SL000", "SL001"}:  # these two have no page
        yield "more", f"softlookup explain {finding.name}"


def _fact(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_fact(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_fact(item) for item in value)
    return str(value)


def _drawings(evidence: dict[str, Any]) -> Iterator[RenderableType]:
    """Yield each pair of matrices in the evidence, yours beside the right one."""
    for key in _PAIRS:
        pair = evidence.get(key)
        if not isinstance(pair, dict):
            continue
        yours, right = as_matrix(pair.get("yours")), as_matrix(pair.get("right"))
        if yours is None or right is None:
            continue
        title = ", ".join(
            [
                f"{key} of the smallest case",
                *(str(evidence[it]) for it in ("case", "shown") if it in evidence),
            ]
        )
        yield Group(Text(printable(title), style="dim"), Beside(yours, right, sums=key == "weights"))


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

    def __init__(self, yours: Matrix, right: Matrix, *, sums: bool) -> None:
        self.yours = yours
        self.right = right
        self.sums = sums

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw both."""
        titles = ("yours", "right")
        for line in beside(titles, self.yours, self.right, sums=self.sums, width=options.max_width):
            yield _uncut(line)


class Excerpt:
    """Some lines of source around the wrong one, which carries a ``>``; cut at the width, not wrapped."""

    def __init__(self, lines: Sequence[str], wrong: int) -> None:
        self.lines = lines
        self.wrong = wrong

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the lines that fit."""
        first, last = max(1, self.wrong - _AROUND), min(len(self.lines), self.wrong + _AROUND)
        while last > self.wrong and not self.lines[last - 1].strip():
            last -= 1  # no blank line at the end
        digits = len(str(last))
        for number in range(first, last + 1):
            sign = ">" if number == self.wrong else " "
            line = f"{sign} {number:{digits}} | {printable(self.lines[number - 1])}".rstrip()
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
