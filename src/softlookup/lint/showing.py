"""Hits for people and for tools: lines in a terminal, JSON, and the file reports behind the other forms."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

import softlookup
from softlookup.lint.discover import Lint, lints
from softlookup.lint.running import Found, LintedFile
from softlookup.report.plain_words import count, printable
from softlookup.terms import Contract, Diagnosis, FileReport, Finding


def hits_renderable(linted: Sequence[LintedFile], sources: Mapping[str, str]) -> RenderableType:
    """Return every hit with its line of source, and every file that was skipped."""
    parts: list[RenderableType] = []
    for it in linted:
        lines = sources.get(it.file, "").splitlines()
        for found in it.found:
            parts += [*_hit(it.file, found, lines), Text("")]
    for it in linted:
        if it.skipped:
            parts.append(Text(f"{printable(it.file)}: skipped, {printable(it.skipped)}", style="yellow"))
    return Group(*parts)


def closing_line(linted: Sequence[LintedFile]) -> Text:
    """Return the last line: how many hits, in how many files, how many are silenced."""
    hits = sum(len(it.found) for it in linted)
    words = [f"{count(hits, 'hit')} in {count(len(linted), 'file')}"]
    if silenced := sum(it.silenced for it in linted):
        words.append(f"{silenced} silenced")
    if skipped := sum(bool(it.skipped) for it in linted):
        words.append(f"{skipped} skipped")
    return Text(", ".join(words), style="bold red" if hits else "bold green")


def lints_renderable() -> RenderableType:
    """Return the list of all lints: code, name, what is wrong."""
    rows = [Text.assemble((it.code, "bold"), f" {it.name}{_off(it)}: ", it.summary) for it in lints()]
    return Group(*rows)


def as_json(linted: Sequence[LintedFile]) -> str:
    """Return one JSON object; see docs/how-to/lint.md for its keys."""
    hits = [
        {
            "file": it.file,
            "line": found.line,
            "column": found.column,
            "code": _lint(found).code,
            "name": _name(found),
            "lint": found.lint,
            "within": found.within,
            "summary": found.words,
            "fix": found.fix,
        }
        for it in linted
        for found in it.found
    ]
    whole = {
        "softlookup": softlookup.__version__,
        "files": len(linted),
        "hits": hits,
        "silenced": sum(it.silenced for it in linted),
        "skipped": [{"file": it.file, "reason": it.skipped} for it in linted if it.skipped],
    }
    return json.dumps(whole, indent=2)


def file_reports(linted: Sequence[LintedFile]) -> list[FileReport]:
    """Return the hits as file reports, so that every form of a report can show them."""
    return [
        FileReport(it.file, tuple(_diagnosis(it.file, found) for found in it.found))
        for it in linted
        if it.found
    ]


def _diagnosis(file: str, found: Found) -> Diagnosis:
    finding = Finding(
        _lint(found).code,
        _name(found),
        f"{found.words} ({found.lint})",
        line=found.line,
        fix=found.fix,
        evidence={"lint": found.lint, "column": found.column},
    )
    return Diagnosis(found.within, "function", file, found.line, Contract(), "named", (finding,))


def _hit(file: str, found: Found, lines: Sequence[str]) -> list[RenderableType]:
    lint = _lint(found)
    more = f"softlookup explain {lint.rule}" if lint.rule else f"softlookup lint --list ({found.lint})"
    place = f"{printable(file)}:{found.line}:{found.column}"
    head = Text.assemble((place, "bold"), "  ", (lint.code, "bold red"), f" {found.lint}")
    head.no_wrap, head.overflow = True, "ignore"  # a place in two pieces cannot be clicked
    line = lines[found.line - 1].strip() if found.line <= len(lines) else ""
    return [
        head,
        Text(f"  > {printable(line)}", style="dim", no_wrap=True, overflow="ellipsis"),
        Text(f"  {printable(found.words)}"),
        Text(f"  fix   {printable(found.fix)}"),
        Text(f"  more  {more}", style="dim"),
    ]


def _lint(found: Found) -> Lint:
    return next(it for it in lints() if it.name == found.lint)


def _name(found: Found) -> str:
    """Return the name of the rule that explains the bug, or the lint's own where no rule has its code."""
    return _lint(found).rule or found.lint


def _off(lint: Lint) -> str:
    return "" if lint.by_default else " (off unless selected)"
