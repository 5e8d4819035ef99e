"""Write the chart of mask conventions: what the libraries do, measured, and what their pages say.

    python scripts/write_conventions.py            measure what is installed, write the facts and the page
    python scripts/write_conventions.py --check    measure nothing; say whether the page has drifted

The facts, docs/reference/conventions.json, are committed: a library that is not installed keeps those that
were measured before. The page is written from the facts and from the files of the conventions, for which no
library is needed.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from convention_rows import HEADER, NO_LIBRARY, in_brackets, link_to, row_of
from measure_conventions import can_be_asked, facts
from raw_masks import SHAPES

from softlookup.conventions.discover import Convention, conventions
from softlookup.conventions.spelling import EXAMPLE

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
FACTS, PAGE = REFERENCE / "conventions.json", REFERENCE / "conventions.md"
GENERATED = "<!-- Written by scripts/write_conventions.py. Edit the convention's file, then run it again. -->"


def read_facts() -> dict[str, Any]:
    """Return the committed facts by the name of the convention."""
    return dict(json.loads(FACTS.read_text(encoding="utf-8"))) if FACTS.exists() else {}


def measured(before: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of every convention; those of libraries that are not installed stay as they were."""
    found = {}
    for it in conventions():
        if can_be_asked(it):
            found[it.name] = facts(it)
        elif it.name in before:
            found[it.name] = before[it.name]
    return found


def conventions_page(found: dict[str, Any]) -> str:
    """Return the page: one table of all conventions, then one section for each."""
    listed = [(it, found[it.name]) for it in conventions() if it.name in found]
    listed.sort(key=lambda pair: (pair[1]["measured_with"] is None, pair[0].words == NO_LIBRARY))
    lines = [
        *("---", "hide: [toc]", "---", ""),  # the table is wide, and leads to every section
        "# Mask conventions",
        "",
        GENERATED,
        "",
        *_introduction(listed),
        "",
        *HEADER,
        *(row_of(it, fact) for it, fact in listed),
    ]
    for it, fact in listed:
        lines += ["", *_section(it, fact)]
    return "\n".join(lines) + "\n"


def _introduction(listed: list[tuple[Convention, dict[str, Any]]]) -> Iterator[str]:
    ran = sum(fact["measured_with"] is not None for _, fact in listed)
    yield _paragraph(
        "How each API spells who may look at whom. One convention is one file in",
        f"`src/softlookup/conventions/`. For {ran} of {len(listed)} the library itself was called, with a",
        "tensor of one marked entry, a mask of every shape, its flag where T_q and T_k differ, a query that",
        "may look nowhere; the weights say what it did. A test measures again wherever the library is",
        'installed. Where it does not run on a CPU, the last cell says "read, not run": the row is then what',
        "we read in its documentation. [Why they differ](../explanation/true-means-what.md).",
    )
    yield ""
    yield _paragraph(
        "B samples, H heads, T_q queries, T_k keys. Shapes: broadcasts is whatever does to [B, H, T_q, T_k],",
        "four axes are these, each of which may be 1; a line for each argument where they differ. Corner:",
        "where a causal flag begins when T_q and T_k",
        "differ, at the first key (top-left) or so that the last query is at the last key (bottom-right).",
        'Window: which keys query i sees when the argument says 3. "Average" in a row without keys is that',
        f"of all values. The drawings show `{EXAMPLE}` for T_q = T_k = 3 and B = 2.",
    )
    for equal, words in (
        ("B T_k where B == T_q", "`[B, T_k]`"),
        ("B T_q T_k where B == H", "`[B, T_q, T_k]`"),
    ):
        names = [link_to(it) for it, fact in listed if any(equal in by for by in fact["shapes"].values())]
        if names:
            other = "`[T_q, T_k]`" if "T_k where B == T_q" in equal else "`[H, T_q, T_k]`"
            yield ""
            yield _paragraph(
                f"**A mask {words} is taken for {other}, silently, when {equal.partition('where ')[2]}:**",
                ", ".join(names) + ".",
            )


# The sections


def _section(it: Convention, fact: dict[str, Any]) -> Iterator[str]:
    yield f"## {it.name}"
    yield from ("", f"`{it.call.format('...')}`", "", "```text", *it.drawing.splitlines(), "```", "")
    words = "In words" if it.words == NO_LIBRARY else f"In its words, {it.words}"
    for title, part in (
        (words, "In its words"),
        *((name, name) for name in ("Lost when written", "Lost when read")),
    ):
        yield from (_paragraph(f"**{title}:** {_escaped(it.part(part))}"), "")
    yield from _forms_table(it, fact)
    yield from _shapes_table(fact)


def _forms_table(it: Convention, fact: dict[str, Any]) -> Iterator[str]:
    everything = max(fact["forms"].values(), key=len, default=[])
    for_rows = fact["empty_rows"] is not None
    yield "| form | what is written | can say |" + " row without keys |" * for_rows
    yield "|---|---|---|" + "---|" * for_rows
    for form, writer in it.forms.items():
        kinds = fact["forms"][form]
        says = "all of these" if kinds == everything and len(kinds) > _MANY else ", ".join(kinds)
        first_line = _escaped((writer.__doc__ or "").strip().splitlines()[0])
        row = f"| {form} | {first_line} | {says or 'nothing that was tried'} |"
        yield row + (f" {fact['empty_rows'][form]} |" if for_rows else "")
    if len(everything) > _MANY:
        yield from ("", _paragraph(f"All of these: {', '.join(everything)}."))


_MANY = 8  # kinds of masks, from which a cell refers to the sentence below


def _shapes_table(fact: dict[str, Any]) -> Iterator[str]:
    """Write one column for each outcome: arguments and dtypes that take the same shapes stand together."""
    columns: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, by_shape in fact["shapes"].items():
        columns.setdefault(tuple(by_shape.items()), []).append(name)
    if fact["measured_with"] is None or not any(columns):
        return
    tables = {_together(names): dict(by_shape) for by_shape, names in columns.items()}
    shapes = list(dict.fromkeys([*SHAPES, *(shape for by_shape in tables.values() for shape in by_shape)]))
    yield from ("", f"| shape | {' | '.join(tables)} |", "|---|" + "---|" * len(tables))
    for shape in shapes:
        name, where, condition = shape.partition(" where ")
        cells = [by_shape.get(shape, "") for by_shape in tables.values()]
        yield f"| {in_brackets(name)}{where}{condition} | {' | '.join(map(_outcome, cells))} |"


def _together(names: list[str]) -> str:
    dtypes: dict[str, list[str]] = {}
    for name in names:
        argument, _, dtype = name.partition(": ")
        dtypes.setdefault(argument, []).append(dtype)
    return "; ".join(f"`{argument}` {', '.join(them)}" for argument, them in dtypes.items())


def _outcome(says: str) -> str:
    if says.startswith("taken for ") and not says.endswith("something else"):
        return f"**taken for** {in_brackets(says.removeprefix('taken for '))}"
    return "**turned round**: hidden keys are seen" if says == "turned round" else says


def _escaped(words: str) -> str:
    return re.sub(r"([*<|])", r"\\\1", words)


def _paragraph(*sentences: str) -> str:
    return textwrap.fill(" ".join(sentences), 110, break_on_hyphens=False, break_long_words=False)


def main(arguments: list[str]) -> int:
    """Measure and write; or with --check only say whether the page has drifted."""
    torch.set_num_threads(1)
    if "--check" in arguments:
        drifted = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != conventions_page(read_facts())
        print(f"drifted: {PAGE.name}" if drifted else f"{PAGE.name} is up to date")
        return int(drifted)
    found = measured(read_facts())
    FACTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(conventions_page(found), encoding="utf-8")
    for it in conventions():
        if not can_be_asked(it):
            kept = "kept as they were" if it.name in found else "missing"
            print(f"not installed: {', '.join(it.needs)}; the facts of {it.name} are {kept}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
