"""Lints are found by file name: ``slNNN_name.py`` in ``lint/rules/``. The file's docstring is its page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from softlookup import catalog
from softlookup.lint.hit import Hit
from softlookup.lint.source import Source

_FOLDER = Path(__file__).parent / "rules"
_FILE = re.compile(r"sl(\d{3})_([a-z0-9_]+)\.py")


class Lint(catalog.Entry):
    """One lint: ``code`` is the rule whose bug it points at, ``name`` its own short name."""

    @cached_property
    def rule(self) -> str:
        """The name of the rule with this code, as `softlookup explain` knows it; "" when there is none."""
        return next((it.name for it in catalog.rules() if it.code == self.code), "")

    @cached_property
    def worth(self) -> re.Pattern[str]:
        """What a text must hold to be worth parsing, so that most files never are."""
        found: re.Pattern[str] = self._module.WORTH
        return found

    @cached_property
    def by_default(self) -> bool:
        """Whether it runs without being selected."""
        return bool(getattr(self._module, "BY_DEFAULT", True))

    @cached_property
    def find(self) -> Callable[[Source], Iterator[Hit]]:
        """The function that finds its hits in a source."""
        found: Callable[[Source], Iterator[Hit]] = self._module.find
        return found

    @cached_property
    def _module(self) -> Any:
        return import_module(f"softlookup.lint.rules.{self.path.stem}")


@lru_cache
def lints() -> tuple[Lint, ...]:
    """Return every lint, in the order of the codes."""
    return tuple(
        Lint(f"SL{match[1]}", match[2].replace("_", "-"), path)
        for path in sorted(_FOLDER.glob("sl*.py"))
        if (match := _FILE.fullmatch(path.name))
    )
