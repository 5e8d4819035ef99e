"""Put what the code on the pages of the tutorial prints under it, and draw its picture.

The blocks of a page run one after another in one namespace, as in a notebook. What a block prints stands in
the ``text`` block right under it: it is written here and never by hand. Drawings are made this way.

python scripts/write_tutorial.py [--check]
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

import torch
from draw_variance import PICTURE, picture

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "tutorial").glob("*.md"))
_BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n.*?^```\n)?", re.S | re.M)


def with_outputs(text: str, name: str) -> str:
    """Return a page with what its blocks print now.

    >>> print(with_outputs("```python\\nprint(1 + 1)\\n```\\n", "page").replace("`", "'"))
    '''python
    print(1 + 1)
    '''
    <BLANKLINE>
    '''text
    2
    '''
    <BLANKLINE>
    """
    names: dict[str, Any] = {"__name__": name}

    def ran(block: re.Match[str]) -> str:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(block["code"], name, "exec"), names)
        printed = "\n".join(line.rstrip() for line in said.getvalue().rstrip().splitlines())
        return f"```python\n{block['code']}```\n" + (f"\n```text\n{printed}\n```\n" if printed else "")

    return _BLOCK.sub(ran, text)


def documents() -> list[tuple[Path, str]]:
    """Return every file of the tutorial that is made here, with its text."""
    pages = [(page, with_outputs(page.read_text(encoding="utf-8"), page.stem)) for page in PAGES]
    return [*pages, (PICTURE, picture())]


def main(arguments: list[str]) -> int:
    """Write them, or with --check only say which have drifted."""
    torch.set_num_threads(1)
    drifted = [
        (path, text)
        for path, text in documents()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in drifted:
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    verb = "drifted:" if "--check" in arguments else "wrote"
    print(*(f"{verb} {path.relative_to(ROOT).as_posix()}" for path, _ in drifted), sep="\n")
    return int("--check" in arguments and bool(drifted))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
