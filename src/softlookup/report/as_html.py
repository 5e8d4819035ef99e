"""A report as one page that needs nothing else: no script, no address, light or dark as the reader likes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import softlookup
from softlookup import catalog
from softlookup.catalog import Entry
from softlookup.report.finding_parts import Pair, excerpt, facts, pairs
from softlookup.report.matrices import Matrix, cell_words, decimals, off_one, one_sided
from softlookup.report.plain_words import all_clean, closing_words, describe, printable, verdict_words
from softlookup.report.rule_page import PARTS, introduction, seen_in
from softlookup.terms import Diagnosis, FileReport, Finding

_STYLE = Path(__file__).with_name("page.css")
# Even if a checked name slipped through unescaped, a browser would load and run nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_DARKEST = 70.0  # percent of the shade under a weight of 1, so that its number stays readable


def render(reports: Sequence[FileReport], sources: Mapping[str, str], ignored: int = 0) -> str:
    """Return the text of the page.

    sources: file -> its text, for the excerpts
    ignored: how many findings were left out because the user asked for it
    """
    targets = [(report, diagnosis) for report in reports for diagnosis in report.diagnoses]
    words = closing_words(reports, ignored)
    versions = sorted({f"torch {report.torch}" for report in reports if report.torch})
    body = [
        '<header><div class="top"><h1>softlookup</h1>',
        _verdict(words, good=all_clean(reports)),
        f'</div><p class="dim">{_text(", ".join([f"softlookup {softlookup.__version__}", *versions]))}</p>',
        *(_contents(targets) if len(targets) > 1 else ()),
        "</header><main>",
    ]
    for number, (report, diagnosis) in enumerate(targets):
        lines = sources.get(report.file, "").splitlines()
        body += _target(number, report.file, diagnosis, lines)
    body += [line for report in reports for line in _skipped(report)]
    head = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>softlookup: {_text(words)}</title>",
        f"<style>\n{_STYLE.read_text(encoding='utf-8')}</style></head><body>",
    ]
    return "\n".join([*head, *body, "</main></body></html>"])


def _text(words: str) -> str:
    """Return text of the user's as text of the page; what would steer a reader's eye is shown as ``?``."""
    return escape(printable(words))


def _verdict(words: str, *, good: bool) -> str:
    return f'<span class="verdict {"good" if good else "bad"}">{_text(words)}</span>'


def _contents(targets: Sequence[tuple[FileReport, Diagnosis]]) -> Iterator[str]:
    yield "<nav><ul>"
    for number, (report, diagnosis) in enumerate(targets):
        yield (
            f'<li><a href="#target-{number}"><code>{_text(diagnosis.name)}</code></a>'
            f"{_verdict(verdict_words(diagnosis), good=diagnosis.clean)}"
            f'<span class="place">{_text(_place(report.file, diagnosis))}</span></li>'
        )
    yield "</ul></nav>"


def _place(file: str, diagnosis: Diagnosis) -> str:
    return f"{file}:{diagnosis.line}" if diagnosis.line else file


def _target(number: int, file: str, diagnosis: Diagnosis, lines: Sequence[str]) -> Iterator[str]:
    yield f'<section id="target-{number}"><div class="top"><h2><code>{_text(diagnosis.name)}</code></h2>'
    yield _verdict(verdict_words(diagnosis), good=diagnosis.clean)
    yield f'<span class="place">{diagnosis.kind} {_text(_place(file, diagnosis))}</span></div>'
    declared, measured = describe(diagnosis.contract)
    call = diagnosis.contract.arguments
    called = f"{diagnosis.name.rpartition('.')[2]}({call})" if call else ""
    yield _list(
        (label, words)
        for label, words in (
            ("called", called),
            ("declared", "; ".join(declared)),
            ("measured", "; ".join(measured)),
        )
        if words
    )
    for finding in diagnosis.findings:
        yield from _finding(finding, lines)
    if diagnosis.notes:
        yield "<h3>Notes, measured and not held against it</h3>"
        yield _list((f"{note.code} {note.name}", note.summary) for note in diagnosis.notes)
    yield "</section>"


def _finding(finding: Finding, lines: Sequence[str]) -> Iterator[str]:
    line = f' <span class="place">line {finding.line}</span>' if finding.line else ""
    yield f'<article><h3><span class="bad">{finding.code}</span> {_text(finding.name)}{line}</h3>'
    yield f"<p>{_text(finding.summary)}</p>"
    if finding.line and finding.line <= len(lines):
        yield _excerpt(lines, finding.line)
    for pair in pairs(finding.evidence):
        yield _beside(pair)
    yield _list(facts(finding))
    entry = next((it for it in catalog.rules() if it.code == finding.code), None)
    if entry is not None:
        yield from _page(entry)
    yield "</article>"


def _list(rows: Iterable[tuple[str, str]]) -> str:
    items = [f"<dt>{_text(label)}</dt><dd>{_text(words)}</dd>" for label, words in rows]
    return f"<dl>{''.join(items)}</dl>" if items else ""


def _excerpt(lines: Sequence[str], wrong: int) -> str:
    shown = excerpt(lines, wrong)
    digits = len(str(shown[-1][0]))
    rows = [
        f"<mark>&gt; {number:{digits}} | {_text(text)}</mark>"
        if number == wrong
        else f"<span>  {number:{digits}} | {_text(text)}</span>"
        for number, text in shown
    ]
    return f"<pre>{''.join(rows)}</pre>"


def _beside(pair: Pair) -> str:
    tables = "".join(_table(title, pair) for title in ("yours", "right"))
    caption = f"{_text(pair.title)}; row = query, column = key" if pair.of == "weights" else _text(pair.title)
    return f'<figure><figcaption>{caption}</figcaption><div class="beside">{tables}</div></figure>'


def _table(title: str, pair: Pair) -> str:
    matrix: Matrix = getattr(pair, title)
    digits, odd = decimals(pair.yours, pair.right), one_sided(pair.yours, pair.right)
    sums = pair.of == "weights" and off_one(pair.yours, pair.right)
    rows = []
    for i, row in enumerate(matrix):
        cells = [_cell(value, digits, odd=(i, j) in odd and value != 0) for j, value in enumerate(row)]
        if sums:
            cells.append(f'<td class="sum">sum {cell_words(sum(row), digits)}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><caption>{title}</caption>{''.join(rows)}</table>"


def _cell(value: float, digits: int, *, odd: bool) -> str:
    """Return one cell, shaded by its size; with ``odd`` only this matrix has something here."""
    part = min(1.0, abs(value)) * _DARKEST if math.isfinite(value) else 0.0
    words = cell_words(value, digits) + ("*" if odd else "")
    return f'<td class="cell{" odd" if odd else ""}" style="--part: {part:.0f}%">{words}</td>'


def _page(entry: Entry) -> Iterator[str]:
    yield f"<details><summary>About {entry.name}</summary>"
    for paragraph in introduction(entry):
        yield f"<p>{_text(paragraph)}</p>"
    yield _list((title, words) for title in PARTS if (words := entry.part(title)))
    if reports := seen_in(entry):
        links = "".join(f"<li>{_link(text)}</li>" for text in reports)
        yield f'<p>Seen in</p><ul class="plain">{links}</ul>'
    yield "</details>"


def _link(text: str) -> str:
    address, _, rest = text.partition(" ")
    if not address.startswith("https://"):
        return _text(text)
    return f'<a href="{escape(address)}" rel="noreferrer">{_text(address)}</a> {_text(rest)}'


def _skipped(report: FileReport) -> Iterator[str]:
    if report.skipped:
        yield f"<details><summary>Looked at and skipped in {_text(report.file)}</summary>"
        yield _list(
            (f"{it.name} (line {it.line})" if it.line else it.name, it.reason) for it in report.skipped
        )
        yield "</details>"
