"""Tokens as text that is safe to look at: what cannot be seen, or would move other text, becomes a sign."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from softlookup.terms import SoftlookupError

_SIGNS = {"\n": "↵", "\t": "⇥", " ": "·"}
_LONGEST = 4000  # characters of a token that the page holds; the rest is counted


def shown(token: str) -> str:
    """Return what is shown of a token: spaces at its ends, controls and invisible characters become signs.

    >>> shown(" the"), shown("a" + chr(0) + "b"), shown("")
    ('·the', 'a⟨00⟩b', '∅')
    """
    if not token:
        return "∅"
    cut = token[:_LONGEST]
    left, right = len(cut) - len(cut.lstrip(" ")), len(cut) - len(cut.rstrip(" "))
    last = len(cut) - right
    text = "".join(
        character if character == " " and left <= place < last else _visible(character)
        for place, character in enumerate(cut)
    )
    return text if len(token) == len(cut) else f"{text}… ({len(token):,} characters)"


def _visible(character: str) -> str:
    if character in _SIGNS:
        return _SIGNS[character]
    code = ord(character)
    # Formats (bidirectional overrides, zero-width), lone surrogates, private and unassigned ones, line ends.
    # Joiners belong to the scripts and emoji that use them.
    if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}:
        return character if character in "\u200c\u200d" else f"⟨{code:02X}⟩"
    return character


def texts_of(tokens: Any, whose: str) -> list[str]:
    """Return tokens as a list of texts.

    Raises: SoftlookupError for anything but a sequence of str.
    """
    if isinstance(tokens, str) or not isinstance(tokens, Sequence):
        raise SoftlookupError(
            f"view: the {whose} are no tokens.",
            expected="a list of str, one for each position",
            got=type(tokens).__name__,
            hint="text= takes a whole text, and a tokenizer",
        )
    for place, token in enumerate(tokens):
        if not isinstance(token, str):
            raise SoftlookupError(
                f"view: the {whose} are no tokens.",
                expected="a list of str, one for each position",
                got=f"{type(token).__name__} at {place}",
            )
    return list(tokens)


def numbered(tokens: Sequence[str]) -> list[int]:
    """Return a number for each token, the same for the same text.

    >>> numbered(["a", "b", "a"])
    [0, 1, 0]
    """
    numbers: dict[str, int] = {}
    return [numbers.setdefault(token, len(numbers)) for token in tokens]
