"""Make the picture of the README: a real check of the broken example, as a terminal shows it.

python scripts/draw_finding.py
"""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from softlookup.checker.files import check_file
from softlookup.report.terminal import closing_line, file_renderable
from softlookup.terms import Contract

ROOT = Path(__file__).parent.parent
EXAMPLE = "examples/attention_shapes_check_broken.py"
PICTURE = ROOT / "docs" / "images" / "finding.svg"


def main() -> None:
    """Check the example and draw what a terminal of 98 columns shows."""
    os.chdir(ROOT)
    report = check_file(EXAMPLE, contract=Contract())
    console = Console(
        record=True,
        width=98,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
    )
    console.print(file_renderable(report, Path(EXAMPLE).read_text(encoding="utf-8")))
    console.print(closing_line([report]))
    svg = console.export_svg(title=f"softlookup check {EXAMPLE}", theme=MONOKAI, unique_id="finding")
    svg = re.sub(
        r"@font-face \{.*?\}\s*", "", svg, flags=re.S
    )  # no fonts from elsewhere: any monospace will do
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
