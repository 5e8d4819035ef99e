"""Put every bug of the modules in tests/kill to the checker, write docs/reference/kill-table-of-modules.md.

python scripts/write_module_kills.py         minutes
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from module_corpus import PAIRS, SINGLES, STYLES, diagnosis_of_style, killed

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "kill-table-of-modules.md"
HEAD = """# Kill table of modules

<!-- Written by scripts/write_module_kills.py. -->

{rules} bug classes, written into {styles} right modules of different handwritings
(`tests/kill/module_styles`): {total} wrong files. `name, line` means this name, no other, and a line that is
wrong. Measured by `python scripts/write_module_kills.py`.

- {named} of {total} got their name and no other, {located} with the line.
- right modules called clean: {clean} of {styles}.

| bug | style | float32 |
|---|---|---|"""


def main() -> None:
    """Write the page."""
    with ProcessPoolExecutor() as pool:  # one process a core
        singles = dict(zip(SINGLES, pool.map(_cell_of_one, SINGLES), strict=True))
        pairs = dict(zip(PAIRS, pool.map(_cell_of_two, PAIRS), strict=True))
        clean = sum(pool.map(_is_clean, STYLES))
    head = HEAD.format(
        rules=len({rule for rule, _ in SINGLES}),
        styles=len(STYLES),
        total=len(SINGLES),
        named=sum(cell.startswith("name") for cell in singles.values()),
        located=sum(cell == "name, line" for cell in singles.values()),
        clean=clean,
    )
    rows = [f"| `{rule}` | {style} | {cell} |" for (rule, style), cell in singles.items()]
    two = [f"| `{'` and `'.join(rules)}` | {style} | {cell} |" for (rules, style), cell in pairs.items()]
    title = ["", "## Two bugs in one module", "", "| bugs | style | float32 |", "|---|---|---|"]
    PAGE.write_text("\n".join([head, *rows, *title, *two]) + "\n", encoding="utf-8")


def _cell_of_one(key: tuple[str, str]) -> str:
    return _cell((key[0],), key[1])


def _cell_of_two(key: tuple[tuple[str, str], str]) -> str:
    return _cell(*key)


def _is_clean(style: str) -> bool:
    return bool(diagnosis_of_style(style).clean)


def _cell(rules: tuple[str, ...], style: str) -> str:
    diagnosis, lines = killed(rules, style)
    print(rules, style, diagnosis.named(), flush=True)
    if sorted(diagnosis.named()) != sorted(rules):
        return " and ".join(f"`{name}`" for name in diagnosis.named()) or "clean"
    return "name, line" if {finding.line for finding in diagnosis.findings} <= lines else "name"


if __name__ == "__main__":
    main()
