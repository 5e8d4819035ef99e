"""A hook of mkdocs: links from the pages to files outside docs/ become the names of these files.

In the repository such a link leads to the source. The site has no copy of it, and may lie anywhere.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\.?/[^)#\s]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the text of a page for the site."""
    here = Path(page.file.abs_src_path).parent

    def written(link: re.Match[str]) -> str:
        target = (here / link[2]).resolve()
        if target.is_relative_to(ROOT / "docs"):
            return link[0]
        name = target.relative_to(ROOT).as_posix()
        return link[1] if link[1].strip("`") == name else f"{link[1]} (`{name}`)"

    return _LINK.sub(written, markdown)
