"""Measure the checker and write the confusion table and the kill table into docs/reference.

    python scripts/write_confusion.py            measure everything again (minutes) and write
    python scripts/write_confusion.py --check    seconds: exit with 1 when the documents miss a rule or a
                                                 mutant, or when other rules answer alike than they say

confusion.md and confusion.json: every wrong step of the catalogue through the checker, by the name it got.
kill-table.md: every bug of tests/kill, written into right files of several styles, by name and line.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from confusing import HALF, Mutant, alike, mutants, names_of
from draw_kill_table import kill_page, rows_missing, words_for

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
PAGE, DATA, KILLS = REFERENCE / "confusion.md", REFERENCE / "confusion.json", REFERENCE / "kill-table.md"
GENERATED = "<!-- Written by scripts/write_confusion.py. -->\n"
COMMAND = (
    "Measured by\n`python scripts/write_confusion.py`; `--check` says whether a rule or a mutant is missing."
)
HEAD = """# Confusion table

{generated}
Each row is a rule: its own wrong step, in each of its shapes, was put into the plain lookup and checked as a
function. `itself` means that this rule was named and nothing else was. {command}

{summary}

| code | rule | shapes | named in float32 | named in bfloat16 |
|---|---|---|---|---|"""
ALIKE = """
## Rules that hide each other

The wrong steps of one line give the same answers on every probe that naming goes by, so values cannot tell
them apart: the recorded calls decide (a product with the mask, or a fill), else the first one is named and
the others stand as alternatives in its evidence. No other wrong steps of different rules answer alike.
"""


def confusion() -> dict[str, Any]:
    """Run every wrong step through the checker: rule -> its code and, for every shape, the names it got."""
    rules: dict[str, Any] = {}
    for mutant in mutants():
        name, half = mutant.entry.name, HALF.get(mutant.entry.name, "bfloat16")
        rule = rules.setdefault(name, {"code": mutant.entry.code, "half": half, "shapes": {}})
        rule["shapes"][shape_of(mutant)] = {"float32": _asked(mutant, None), "half": _asked(mutant, half)}
        print(mutant.entry.code, mutant.label, rule["shapes"][shape_of(mutant)], flush=True)
    return {"rules": rules, "alike": alike()}


def shape_of(mutant: Mutant) -> str:
    """Return how the table calls this shape of a rule."""
    return mutant.shape or "the wrong step"


def _asked(mutant: Mutant, dtype: str | None) -> list[str]:
    try:
        return list(names_of(mutant, dtype))
    except Exception as error:  # the checker itself ended: the table must show that too
        return [f"error: {type(error).__name__}"]


def confusion_page(data: dict[str, Any]) -> str:
    """Return the Markdown of the confusion table."""
    rules = data["rules"]
    summary = "\n".join(_exactly(rules, key) for key in ("float32", "half"))
    lines = [HEAD.format(generated=GENERATED, command=COMMAND, summary=summary)]
    for name, rule in rules.items():
        plain, half = (_tally(name, rule, key) for key in ("float32", "half"))
        half += "" if rule["half"] == "bfloat16" else f" ({rule['half']})"
        lines.append(f"| {rule['code']} | `{name}` | {len(rule['shapes'])} | {plain} | {half} |")
    lines += [ALIKE, *("- " + ", ".join(f"`{label}`" for label in group) for group in data["alike"])]
    return "\n".join(lines) + "\n"


def _exactly(rules: dict[str, Any], key: str) -> str:
    shapes = [(name, names[key]) for name, rule in rules.items() for names in rule["shapes"].values()]
    right = sum(names == [name] for name, names in shapes)
    where = "half precision" if key == "half" else key
    return f"- {where}: {right} of {len(shapes)} wrong steps of {len(rules)} rules got their own name alone."


def _tally(own: str, rule: dict[str, Any], key: str) -> str:
    """Return `itself`, or which names were given how often."""
    counts = Counter(tuple(names[key]) for names in rule["shapes"].values())
    words = {names: "itself" if names == (own,) else words_for(list(names)) for names in counts}
    if len(counts) == 1:
        return next(iter(words.values()))
    return "; ".join(f"{words[names]} {count}" for names, count in counts.most_common())


def drifted() -> list[str]:
    """Return what the committed documents miss. Nothing is examined again."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    now = {mutant.entry.name for mutant in mutants()}
    missing = [f"{PAGE.name}: {name} is new or gone" for name in sorted(now ^ data["rules"].keys())]
    if PAGE.read_text(encoding="utf-8") != confusion_page(data):
        missing.append(f"{PAGE.name}: not what {DATA.name} says")
    if _rules_in(data["alike"]) != _rules_in(alike()):
        missing.append(f"{PAGE.name}: other rules answer alike now")
    rows = rows_missing(KILLS.read_text(encoding="utf-8"))
    return missing + [f"{KILLS.name}: new or gone: {row}" for row in rows]


def _rules_in(groups: list[list[str]]) -> set[frozenset[str]]:
    """Return which rules share a group, whatever their shapes are called."""
    return {frozenset(label.split(" ")[0] for label in group) for group in groups}


def main(arguments: list[str]) -> int:
    """Write the documents, or with --check say what they miss."""
    torch.set_num_threads(1)
    if "--check" in arguments:
        missing = drifted()
        print(*missing or ["the measured documents are complete"], sep="\n")
        return 1 if missing else 0
    data = confusion()
    DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(confusion_page(data), encoding="utf-8")
    KILLS.write_text(kill_page(GENERATED, COMMAND), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
