"""Write everything in docs/reference and the drawings that `softlookup explain` shows, from the code itself.

    python scripts/write_docs.py            write what changed
    python scripts/write_docs.py --check    write nothing; exit with 1 and say so when something drifted

The drawings come from running each rule's wrong step, the rest from docstrings and the options themselves.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import torch
from draw_rules import drawings
from write_conventions import PAGE as CONVENTIONS
from write_conventions import conventions_page, read_facts

from softlookup import catalog, cli
from softlookup.learn.exercise import all_exercises
from softlookup.learn.lessons import LESSONS
from softlookup.report.rule_page import PARTS, drawing_lines, introduction, seen_in

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "softlookup"
DRAWINGS = SOURCE / "checker" / "drawings.json"
REFERENCE = ROOT / "docs" / "reference"
FAMILIES = {
    "0": "What no rule explains",
    "1": "Visibility: who may look at whom",
    "2": "Arithmetic",
    "3": "Heads, layout, projections",
    "4": "Rows that may look nowhere",
    "5": "Positions",
    "6": "Key/value cache",
    "7": "Precision and backends",
    "8": "Training",
    "9": "Live models",
}
GENERATED = "<!-- Written by scripts/write_docs.py. Edit the code it comes from, then run `make docs`. -->\n"


def documents() -> Iterator[tuple[Path, str]]:
    """Yield every generated file with the text it should have."""
    drawn = drawings()
    yield DRAWINGS, _one_row_a_line(drawn)
    yield REFERENCE / "rules.md", rules_page(drawn)
    yield REFERENCE / "masks.md", masks_page()
    yield REFERENCE / "cli.md", cli_page()
    yield REFERENCE / "exercises.md", exercises_page()
    yield CONVENTIONS, conventions_page(read_facts())


def rules_page(drawn: dict[str, Any]) -> str:
    """Return the page of all rules, family by family."""
    lines = [
        "# Rules",
        "",
        GENERATED,
        "One rule is one bug class, and one file in `src/softlookup/checker/rules/`, or for what only a",
        "whole model can break in `auditing/rules/` and `live/alarms/`. The drawings show the weights (or",
        "the output) of the plainest case that the wrong step changes: row = query, column = key, `.` is",
        "exactly 0, and `*` marks a cell that is 0 on one side only.",
        "`softlookup explain NAME` prints the same page.",
    ]
    family = ""
    for entry in catalog.all_rules():
        if entry.code[2] != family:
            family = entry.code[2]
            lines += ["", f"## SL{family}: {FAMILIES[family]}"]
        lines += ["", *rule_section(entry, drawn.get(entry.name))]
    return "\n".join(lines) + "\n"


def rule_section(entry: catalog.Entry, drawing: dict[str, Any] | None) -> Iterator[str]:
    """Yield the lines of one rule."""
    yield f"### {entry.code} {entry.name}"
    for paragraph in introduction(entry):
        yield from ("", paragraph)
    if lines := drawing_lines(drawing):
        yield from ("", "```text", *lines, "```")
    for title in PARTS:
        if words := entry.part(title):
            yield from ("", f"**{title}:** {words}")
    if reports := seen_in(entry):
        addresses = re.sub(r"(https?://[^\s,]+)", r"<\1>", ", ".join(reports))
        yield from ("", f"**Seen in:** {addresses}")


def masks_page() -> str:
    """Return the page of all masks: each is the docstring of its file."""
    lines = [
        "# Masks",
        "",
        GENERATED,
        "One visibility rule is one file in `src/softlookup/masks/`. `1`: this query (row) may look at",
        "this key (column); `.`: it may not. The name says what is counted. A test compares every drawing",
        "with the code.",
    ]
    for path in sorted((SOURCE / "masks").glob("[a-z]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if names & {"allowed", "bias"}:
            lines += ["", f"## {path.stem.replace('_', ' ')}", "", ast.get_docstring(tree) or ""]
    return "\n".join(lines) + "\n"


def cli_page() -> str:
    """Return the page of the command line: every command with its options."""
    lines = ["# Command line", "", GENERATED, (cli.main.help or "").strip()]
    for words, command in _commands(cli.main):
        context = click.Context(command)
        arguments = [it.make_metavar(context) for it in command.params if _is_argument(it)]
        lines += ["", f"## `softlookup {' '.join([*words, *arguments])}`", ""]
        lines += [line.strip() for line in (command.help or "").strip().splitlines()]
        options = [it for it in command.params if isinstance(it, click.Option)]
        if options:
            lines += ["", "| option | meaning | without it |", "|---|---|---|"]
            lines += [_option_row(option) for option in options]
    return "\n".join([*lines, "", _JSON]) + "\n"


def _commands(group: click.Group, *before: str) -> Iterator[tuple[list[str], click.Command]]:
    """Yield every command with its words; a group comes before what is in it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        yield [*before, name], command
        if isinstance(command, click.Group):
            yield from _commands(command, *before, name)


def exercises_page() -> str:
    """Return the page of all exercises: what each asks for and checks, without hints and solutions."""
    kinds = {"write": "write it", "find": "find the bug", "predict": "predict what fails"}
    lines = ["# Exercises", "", GENERATED, "`softlookup learn init FOLDER` hands them out."]
    for lesson in LESSONS:
        lines += ["", f"## {lesson.number} {lesson.title}"]
        for it in all_exercises():
            if it.lesson == lesson:
                lines += ["", f"### {it.place} {it.title}", "", f"`{it.name}`, {kinds[it.kind]}. {it.goal}"]
                lines += ["", f"Checks: {it.checks}"]
    return "\n".join(lines) + "\n"


def _is_argument(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Argument)


def _option_row(option: click.Option) -> str:
    kind = option.type
    value = ""
    if isinstance(kind, click.Choice):
        value = " " + " \\| ".join(str(choice) for choice in kind.choices)
    elif not option.is_flag:
        value = f" {option.metavar or kind.name.split()[0].upper()}"
    default = option.default
    without = f"`{default}`" if isinstance(default, (str, int, float)) and default not in {"", False} else ""
    meaning = (option.help or "").replace("|", "\\|")
    return f"| `{', '.join(option.opts)}`{value} | {meaning} | {without} |"


_JSON = """## JSON

`softlookup check FILE --format json` prints one object: `softlookup` and `torch` (versions), `file`,
`targets` and `skipped`. With several files, or a folder, it prints `{"files": [...]}`, one such object for
each file that could be checked. The order of the keys is stable, and keys are only ever added.

| in | keys |
|---|---|
| target | `name`, `kind` (function, module, cross), `line`, `contract`, `verdict`, `findings`, `notes` |
| verdict | `clean`, `named`, `unrecognised` or `not-callable` |
| contract | `layout`, `mask`, `causal`, `returns`, `empty_rows`, `scale`; others only when known |
| finding | `code`, `name`, `line`, `summary`, `fix`, `evidence` |
| note | `code`, `name`, `summary` |
| skipped | `name`, `line`, `reason` |

A number that JSON cannot write is a text: `"nan"`, `"inf"`, `"-inf"`. Errors go to standard error as text.

The other forms, and `[tool.softlookup]` of pyproject.toml: [use softlookup in CI](../how-to/use-in-ci.md)."""


def _one_row_a_line(drawn: dict[str, Any]) -> str:
    """Return JSON in which each rule is one line: short to read, and short to compare."""
    rows = [f"  {json.dumps(name)}: {json.dumps(drawing)}" for name, drawing in drawn.items()]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def main(arguments: list[str]) -> int:
    """Write the documents, or with --check only say which have drifted."""
    torch.set_num_threads(1)
    drifted = []
    for path, text in documents():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            drifted.append(path.relative_to(ROOT).as_posix())
            if "--check" not in arguments:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if "--check" in arguments and drifted:
        print("drifted from the code:", *drifted, "\nrun: python scripts/write_docs.py")
        return 1
    print(*(f"wrote {path}" for path in drifted), sep="\n") if drifted else print("documents are up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
