"""Find rules by file name and read their docstrings without importing them: no torch, no registration.

A rule file is ``slNNN_some_name.py``: the file name is the code and the name, the docstring is the page.
Its parts are paragraphs with fixed first words (``Missed because:``, ``Training:``, ``Ask:``, ``Fix:``,
``Seen in:``).
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from softlookup.terms import SoftlookupError, did_you_mean

_HERE = Path(__file__).parent
_RULE_FILE = re.compile(r"sl(\d{3})_([a-z0-9_]+)\.py")
_PART = re.compile(r"^(Missed because|Training|Ask|Fix|Seen in):\s*", re.M)


@dataclass(frozen=True)
class Entry:
    """One catalogued file: a rule (code SLnnn) or a known variant (code "variant")."""

    code: str
    name: str
    path: Path

    @cached_property
    def page(self) -> str:
        """The file's docstring."""
        return ast.get_docstring(ast.parse(self.path.read_text(encoding="utf-8"))) or ""

    @cached_property
    def summary(self) -> str:
        """The first line of the page."""
        return self.page.partition("\n")[0]

    def part(self, title: str) -> str:
        """Return the paragraph that starts with ``title:``, on one line, or an empty string."""
        pieces = _PART.split(self.page)
        found = dict(zip(pieces[1::2], pieces[2::2], strict=True)).get(title, "")
        return " ".join(found.split("\n\n")[0].split())

    def load(self) -> ModuleType:
        """Import the file. This is what needs torch."""
        return import_module(".".join(("softlookup", *self.path.relative_to(_HERE).with_suffix("").parts)))


@lru_cache
def rules() -> tuple[Entry, ...]:
    """Return every rule that the checker can name, in the order of the codes."""
    return _in_folders("checker/rules")


@lru_cache
def model_rules() -> tuple[Entry, ...]:
    """Return every rule that only a whole model can break, in the order of the codes.

    They are named by ``audit`` and ``watch``; for the checker they are no hypotheses.
    """
    return _in_folders("auditing/rules", "live/alarms")


def all_rules() -> tuple[Entry, ...]:
    """Return every rule, in the order of the codes."""
    return tuple(sorted((*rules(), *model_rules()), key=lambda entry: entry.code))


def _in_folders(*folders: str) -> tuple[Entry, ...]:
    found = (
        Entry(f"SL{match[1]}", match[2].replace("_", "-"), path)
        for folder in folders
        for path in (_HERE / folder).glob("sl*.py")
        if (match := _RULE_FILE.fullmatch(path.name))
    )
    return tuple(sorted(found, key=lambda entry: entry.code))


@lru_cache
def variants() -> tuple[Entry, ...]:
    """Return the known variants of attention that are not bugs."""
    return tuple(
        Entry("variant", path.stem.replace("_", "-"), path)
        for path in sorted((_HERE / "checker" / "variants").glob("[a-z]*.py"))
    )


def find_rule(code_or_name: str) -> Entry:
    """Return the rule with this code or name.

    Raises: SoftlookupError when there is none, with the nearest names.
    """
    wanted = code_or_name.strip()
    for entry in all_rules():
        if wanted.upper() == entry.code or wanted.lower() == entry.name:
            return entry
    names = [entry.name for entry in all_rules()]
    raise SoftlookupError(
        f"explain: no rule is called {code_or_name!r}.",
        expected="a code such as SL211 or a name such as softmax-over-queries",
        got=repr(code_or_name),
        hint=did_you_mean(wanted.lower(), names, "`softlookup rules` lists them all"),
    )


def explain(code_or_name: str) -> str:
    """Return the page of a rule as plain text.

    >>> print(explain("SL201").splitlines()[0])
    SL201 scale-missing
    """
    entry = find_rule(code_or_name)
    return f"{entry.code} {entry.name}\n\n{entry.page}"
