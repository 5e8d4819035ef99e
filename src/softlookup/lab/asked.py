"""What the page asks for, field by field: each is of its kind and inside its bounds, or refused in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softlookup.terms import SoftlookupError, did_you_mean


class Asked:
    """One JSON object of the page, read field by field."""

    def __init__(self, fields: Mapping[str, Any], what: str = "a request") -> None:
        self.fields, self.what = fields, what

    def text(self, name: str, most: int, otherwise: str | None = None) -> str:
        """Return a text of at most so many characters."""
        value = self.fields.get(name, otherwise)
        if not isinstance(value, str) or len(value) > most:
            raise self._wrong(name, f"a text of at most {most:,} characters")
        return value

    def word(self, name: str, known: Sequence[str], otherwise: str | None = None) -> str:
        """Return one of a few words."""
        value = self.fields.get(name, otherwise)
        if not isinstance(value, str) or value not in known:
            hint = did_you_mean(value[:40], known) if isinstance(value, str) else ""
            raise self._wrong(name, f"one of {', '.join(known)}", hint)
        return value

    def whole(self, name: str, most: int) -> int:
        """Return a whole number from 0 to ``most``."""
        value = self.fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise self._wrong(name, f"a whole number from 0 to {most}")
        return value

    def whole_or_all(self, name: str, most: int) -> int | None:
        """Return a whole number from 0 to ``most``; None, for all of them, where it is left out or null."""
        return None if self.fields.get(name) is None else self.whole(name, most)

    def number(self, name: str, low: float, high: float) -> float:
        """Return a finite number inside bounds."""
        value = self.fields.get(name)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not low <= value <= high:
            raise self._wrong(name, f"a number from {low:g} to {high:g}")  # NaN is not between anything
        return float(value)

    def objects(self, name: str, most: int) -> list[Asked]:
        """Return a list of at most so many JSON objects."""
        values = self.fields.get(name)
        if (
            not isinstance(values, list)
            or len(values) > most
            or not all(isinstance(it, dict) for it in values)
        ):
            raise self._wrong(name, f"a list of at most {most} objects")
        return [Asked(it, f"{name}[{i}]") for i, it in enumerate(values)]

    def _wrong(self, name: str, expected: str, hint: str = "") -> SoftlookupError:
        got = repr(self.fields.get(name))
        return SoftlookupError(
            f"lab: {name!r} of {self.what} cannot be used.", expected=expected, got=got[:60], hint=hint
        )
