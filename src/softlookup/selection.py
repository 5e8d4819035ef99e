"""Which rules count: chosen by code (``SL211``), by the beginning of a code (``SL2``), or by name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from softlookup import catalog
from softlookup.terms import Diagnosis, SoftlookupError, did_you_mean, verdict_of

#: Findings that no rule stands for: while one of them is there, the rules have not all been judged.
UNJUDGED = {"SL000": "unrecognised", "SL001": "not-callable"}


@dataclass(frozen=True)
class Selection:
    """The rules that count. Empty ``select`` is every rule; ``ignore`` wins; see ``read_selection``."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def counts(self, code: str, name: str) -> bool:
        """Say whether a rule counts. SL000 and SL001 do unless they are ignored, whatever is selected.

        >>> only_arithmetic = Selection(select=("SL2",))
        >>> only_arithmetic.counts("SL211", "softmax-over-queries"), only_arithmetic.counts("SL101", "")
        (True, False)
        """
        if _listed(code, name, self.ignore):
            return False
        return not self.select or code in UNJUDGED or _listed(code, name, self.select)

    def of(self, diagnosis: Diagnosis) -> Diagnosis:
        """Return a diagnosis with the findings that count; without any it is clean."""
        kept = tuple(found for found in diagnosis.findings if self.counts(found.code, found.name))
        if len(kept) == len(diagnosis.findings):
            return diagnosis
        return replace(diagnosis, findings=kept, verdict=verdict_of(kept))


def read_selection(select: str | Iterable[str] = (), ignore: str | Iterable[str] = ()) -> Selection:
    """Read what a user wrote: a word or several, also ``"SL1,SL2"``.

    Raises: SoftlookupError for a word that is no rule and begins no code.

    >>> read_selection("SL1, softmax-twice").select
    ('SL1', 'softmax-twice')
    """
    return Selection(known_words(select, "select"), known_words(ignore, "ignore"))


def known_words(given: str | Iterable[str], where: str) -> tuple[str, ...]:
    """Return the words that choose rules, one by one.

    where: what they were given to, for the message

    Raises: SoftlookupError for a word that is no rule and begins no code.
    """
    parts = [given] if isinstance(given, str) else list(given)
    words = tuple(word.strip() for part in parts for word in part.split(",") if word.strip())
    codes, names = _every_code_and_name()
    for word in words:
        begins = re.fullmatch(r"SL\d{0,3}", word, re.I) and any(c.startswith(word.upper()) for c in codes)
        if not begins and word.lower() not in names:
            raise _unknown(word, where)
    return words


def _every_code_and_name() -> tuple[set[str], set[str]]:
    entries = catalog.rules()
    codes, names = {entry.code for entry in entries}, {entry.name for entry in entries}
    return codes | UNJUDGED.keys(), names | set(UNJUDGED.values())


def _unknown(word: str, where: str) -> SoftlookupError:
    names = _every_code_and_name()[1]
    return SoftlookupError(
        f"{where}: no rule is called {word!r}.",
        expected="a code such as SL211, the beginning of one such as SL2, or a name",
        got=repr(word),
        hint=did_you_mean(word.lower(), names, "`softlookup rules` lists them all"),
    )


def _listed(code: str, name: str, words: tuple[str, ...]) -> bool:
    return any(
        word.lower() == name or (word.upper().startswith("SL") and code.startswith(word.upper()))
        for word in words
    )
