"""The words of an audit: what was found in a model, what was measured, what was asked and what was not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Number = float | int | str


@dataclass(frozen=True)
class Found:
    """One thing that is wrong with a model.

    code, name: the rule, e.g. SL101 future-visible;  check: the file that found it, e.g. "causality"
    layer: path of the first module whose input is right and whose output is not; "" is the model itself,
        None: unknown
    words: what was done, and what moved;  measured: the numbers that show it
    """

    code: str
    name: str
    check: str
    words: str
    fix: str
    layer: str | None = None
    measured: dict[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class Noted:
    """Something that was measured, is worth knowing, and is no fault: a convention of this model.

    code: the rule that is about it, or "".
    """

    check: str
    words: str
    code: str = ""


@dataclass(frozen=True)
class Audit:
    """What came of an audit.

    model: the class;  how: how it was called, in words;  sizes: of the inputs it was given
    asked: the checks that were carried out;  not_asked: check -> why it makes no sense for this model
    failed: check -> what the model raised when it was asked
    """

    model: str
    how: str
    sizes: dict[str, int]
    findings: tuple[Found, ...]
    notes: tuple[Noted, ...]
    asked: tuple[str, ...]
    not_asked: dict[str, str]
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def verdict(self) -> Literal["clean", "named"]:
        """Say in one word what came of it."""
        return "named" if self.findings else "clean"

    @property
    def clean(self) -> bool:
        """True when nothing wrong was found."""
        return not self.findings

    def named(self) -> list[str]:
        """Return the names of the rules that were broken, in order.

        >>> Audit("Model", "", {}, (), (), (), {}).named()
        []
        """
        return [it.name for it in self.findings]

    def __str__(self) -> str:
        """Return a line for each finding, or that there is none."""
        lines = [f"{it.code} {it.name} in {place(it.layer)}: {it.words}" for it in self.findings]
        return "\n".join(lines) or f"{self.model}: nothing wrong in {len(self.asked)} checks"


def place(layer: str | None) -> str:
    """Say where something is wrong, in words.

    >>> place("layers.0"), place(""), place(None)
    ('layers.0', 'the model itself, between its layers', 'a layer that was not found')
    """
    if layer is None:
        return "a layer that was not found"
    return layer or "the model itself, between its layers"
