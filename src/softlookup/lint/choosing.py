"""Which lints run: those on by default, or what is selected by code, beginning of a code, or name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from softlookup.lint.discover import Lint, lints
from softlookup.terms import SoftlookupError, did_you_mean


def chosen(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> list[Lint]:
    """Return the lints that run. Each word is ``SL8``, ``SL801``, the name of a rule, or the name of a lint.

    Raises: SoftlookupError for a word that chooses nothing.

    >>> [lint.name for lint in chosen(select=["dropout-not-gated"])]
    ['dropout-not-gated']
    """
    wanted, unwanted = _words(select, "--select"), _words(ignore, "--ignore")
    return [
        it
        for it in lints()
        if (any(_names(word, it) for word in wanted) if wanted else it.by_default)
        and not any(_names(word, it) for word in unwanted)
    ]


def _names(word: str, lint: Lint) -> bool:
    return word.lower() in {lint.name, lint.rule} or (
        bool(re.fullmatch(r"SL\d{0,3}", word, re.I)) and lint.code.startswith(word.upper())
    )


def _words(given: Iterable[str], where: str) -> list[str]:
    words = [word.strip() for text in given for word in text.split(",") if word.strip()]
    for word in words:
        if not any(_names(word, it) for it in lints()):
            names = [it.name for it in lints()]
            raise SoftlookupError(
                f"lint: {where} names no lint with {word!r}.",
                expected="a code such as SL801, the beginning of one such as SL8, or a name",
                got=repr(word),
                hint=did_you_mean(word.lower(), names, "`softlookup lint --list` lists them"),
            )
    return words
