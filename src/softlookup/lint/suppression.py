"""Comments that silence a line: ``# softlookup: ignore`` or ``# softlookup: ignore[SL801, a-lint]``."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

_COMMENT = re.compile(r"#\s*softlookup:\s*ignore(?:\[([^\]]*)\])?(?!\w)")


def is_silenced(lines: Sequence[str], numbers: Collection[int], names: Collection[str]) -> bool:
    """Say whether a comment on one of these lines names the lint, by code or by name, or names nothing.

    >>> is_silenced(["x = attend(q)  # softlookup: ignore[SL801]"], [1], ["SL801", "dropout-not-gated"])
    True
    """
    wanted = {name.lower() for name in names}
    for number in numbers:
        found = _COMMENT.search(lines[number - 1]) if 0 < number <= len(lines) else None
        if found is None:
            continue
        if found[1] is None or wanted & {word.strip().lower() for word in found[1].split(",")}:
            return True
    return False
