"""Put every bug of tests/kill to the checker and draw the table of what was named, for write_confusion.py."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from checker_corpus import PAIRS, SINGLES, STYLES, UNKNOWN, diagnosis_of_style, half_of, killed

HEAD = """# Kill table

{generated}
{rules} bug classes, written into {styles} right files of different styles (`tests/kill`): {total} wrong
files. `name, line` means this name, no other, and a line that is wrong. {command}

- float32: {named} of {total} got their name and no other, {located} with the line.
- half precision: {half_named} of {total} got their name and no other, {half_located} with the line.
- right files called clean: {clean} of {styles} in float32, {half_clean} of {styles} in bfloat16.

| bug | style | float32 | bfloat16 |
|---|---|---|---|"""


class Judged(NamedTuple):
    """How one wrong file was judged."""

    named: bool
    located: bool
    cell: str


def kill_page(generated: str, command: str) -> str:
    """Return the Markdown of the kill table, measured now."""
    judged = {(rule, style): _both(rule, style) for rule, style in SINGLES}
    plain, half = ([pair[place] for pair in judged.values()] for place in (0, 1))
    head = HEAD.format(
        generated=generated,
        command=command,
        rules=len({rule for rule, _ in SINGLES}),
        styles=len(STYLES),
        total=len(SINGLES),
        named=sum(it.named for it in plain),
        located=sum(it.named and it.located for it in plain),
        half_named=sum(it.named for it in half),
        half_located=sum(it.named and it.located for it in half),
        clean=sum(diagnosis_of_style(style).clean for style in STYLES),
        half_clean=sum(diagnosis_of_style(style, "bfloat16").clean for style in STYLES),
    )
    rows = (f"{row_start(*key)} {a.cell} | {b.cell} |" for key, (a, b) in judged.items())
    return "\n".join([head, *rows, "", *_two_bugs(), "", *_no_known_kind()]) + "\n"


def row_start(rule: str, style: str) -> str:
    """Return how the row of a mutant starts."""
    return f"| `{rule}` | {style} |"


def rows_missing(page: str) -> list[str]:
    """Return the mutants that have no row in the page, and the rows that have no mutant."""
    wanted = {row_start(rule, style) for rule, style in SINGLES}
    singles = page.partition("\n## ")[0].splitlines()
    found = {"|".join(line.split("|")[:3]) + "|" for line in singles if line.startswith("| `")}
    return sorted(wanted ^ found)


def words_for(names: list[str]) -> str:
    """Return the names in one table cell."""
    return " and ".join(f"`{name}`" for name in names) or "clean"


def _both(rule: str, style: str) -> tuple[Judged, Judged]:
    half = half_of(rule, style)
    judged = _judged((rule,), style, None), _judged((rule,), style, half)
    print(row_start(rule, style), judged[0].cell, "|", judged[1].cell, flush=True)
    if half == "bfloat16":
        return judged
    return judged[0], judged[1]._replace(cell=f"{judged[1].cell} ({half})")


def _judged(rules: tuple[str, ...], style: str, dtype: str | None) -> Judged:
    try:
        diagnosis, lines = killed(rules, style, dtype)
    except Exception as error:  # the checker itself ended: the table must show that too
        return Judged(False, False, f"error: {type(error).__name__}")
    named = sorted(diagnosis.named()) == sorted(rules)
    located = bool(diagnosis.findings) and {finding.line for finding in diagnosis.findings} <= lines
    if not named:
        return Judged(False, located, words_for(diagnosis.named()))
    return Judged(True, located, "name, line" if located else "name")


def _two_bugs() -> Iterator[str]:
    yield from ("## Two bugs in one file", "", "| bugs | style | float32 |", "|---|---|---|")
    for rules, style in PAIRS:
        judged = _judged(rules, style, None)
        cell = ("both names, both lines" if judged.located else "both names") if judged.named else judged.cell
        yield f"| {words_for(list(rules))} | {style} | {cell} |"


def _no_known_kind() -> Iterator[str]:
    yield from ("## Wrong in a way that no rule describes", "", "| bug | style | float32 |", "|---|---|---|")
    for kind, style in UNKNOWN:
        yield f"| {kind} | {style} | {_judged((kind,), style, None).cell} |"
