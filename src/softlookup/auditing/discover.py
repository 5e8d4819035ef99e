"""Find the checks of an audit by file name: adding one is adding one file, see ``checks``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from softlookup.audited import Found, Noted
from softlookup.auditing.subject import Subject


@dataclass(frozen=True, eq=False)
class Check:
    """One file of ``checks``. name: with blanks, e.g. "right padding";  page: its docstring."""

    name: str
    page: str
    codes: tuple[str, ...]
    after: tuple[str, ...]
    applies: Callable[[Subject], str]
    run: Callable[[Subject], Iterator[Found | Noted]]

    @property
    def summary(self) -> str:
        """The first line of the page."""
        return self.page.partition("\n")[0]


@lru_cache
def all_checks() -> tuple[Check, ...]:
    """Return every check, each after those that it names in ``AFTER``.

    >>> [it.name for it in all_checks()][0]
    'eval twice'
    """
    waiting = {it.name: it for it in _loaded()}
    ordered: dict[str, Check] = {}
    while waiting:
        ready = [it for it in waiting.values() if all(name not in waiting for name in it.after)]
        assert ready, f"checks wait for each other: {list(waiting)}"
        ready.sort(key=lambda it: (it.name not in FIRST, it.name))
        ordered |= {it.name: it for it in ready[:1]}
        del waiting[ready[0].name]
    return tuple(ordered.values())


#: A model that does not repeat its answers, or answers with NaN, can be asked nothing else.
FIRST = ("eval twice", "finite answers")


def _loaded() -> Iterator[Check]:
    for path in sorted((Path(__file__).parent / "checks").glob("[a-z]*.py")):
        module = import_module(f"softlookup.auditing.checks.{path.stem}")
        yield Check(
            path.stem.replace("_", " "),
            inspect.getdoc(module) or "",
            module.CODES,
            tuple(name.replace("_", " ") for name in getattr(module, "AFTER", ())),
            module.applies,
            module.run,
        )
