"""A bug as a patch of a right file: what is replaced by what, and which line is wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "styles"
MODULES = Path(__file__).parent / "module_styles"
BUG = "  # bug"
SHOWS = "  # shows"


@dataclass(frozen=True)
class Mutant:
    """One bug written into one style.

    edits: (old text, new text) pairs; every old text occurs exactly once in the file
    shows: text of another line that may be named as well, where a step that is missing would have stood
    dtype: the only dtype in which the bug can be seen, when it is not every dtype
    contract: fields of softlookup.Contract that the file's own text cannot state
    """

    style: str
    edits: tuple[tuple[str, str], ...]
    shows: str = ""
    dtype: str | None = None
    contract: dict[str, Any] = field(default_factory=dict)


def patch(style: str, *texts: str, shows: str = "", dtype: str | None = None, **contract: Any) -> Mutant:
    """Return the mutant of ``style`` whose texts are old, new, old, new, ...

    The line that the first new text starts on is the wrong one, unless a new text carries the mark itself.
    """
    edits = tuple(zip(texts[::2], texts[1::2], strict=True))
    return Mutant(style, edits, shows, dtype, contract)


def source(style: str, folder: Path = FOLDER) -> str:
    """Return the right file's text."""
    return (folder / f"{style}.py").read_text()


def apply(text: str, mutant: Mutant) -> str:
    """Return the patched text, with ``# bug`` on the wrong line and ``# shows`` on the line that shows it."""
    marked = any(BUG in new for _, new in mutant.edits)
    for number, (old, new) in enumerate(mutant.edits):
        if text.count(old) != 1:
            raise ValueError(f"{mutant.style}: found {text.count(old)} times, expected once:\n{old}")
        start = text.index(old)
        text = text.replace(old, new)
        if number == 0 and not marked:
            text = _mark(text, start, BUG)
    if mutant.shows:
        if text.count(mutant.shows) != 1:
            raise ValueError(
                f"{mutant.style}: found {text.count(mutant.shows)} times, expected once:\n{mutant.shows}"
            )
        text = _mark(text, text.index(mutant.shows), SHOWS)
    return text


def _mark(text: str, position: int, mark: str) -> str:
    end = text.index("\n", position)
    return text[:end] + mark + text[end:]


def lines_with(text: str, mark: str) -> list[int]:
    """Return the numbers of the lines that carry the mark, counted from 1."""
    return [number for number, line in enumerate(text.splitlines(), 1) if mark in line]


def mutant_in(mutants: dict[str, list[Mutant]], rule: str, style: str) -> Mutant:
    """Return the patch that writes this bug into this style."""
    found = [mutant for mutant in mutants[rule] if mutant.style == style]
    if len(found) != 1:
        raise LookupError(f"{rule} in {style}: {len(found)} patches, expected 1")
    return found[0]


def write(text: str, mutants: dict[str, Mutant], folder: Path) -> tuple[Path, tuple[int, ...]]:
    """Write a right text with several bugs into ``folder``; return its path and the wrong lines in order.

    mutants: rule -> its patch, all of one style
    """
    for mutant in mutants.values():
        text = apply(text, mutant)
    style = next(iter(mutants.values())).style
    name = "__".join([style, *(rule.replace(" ", "-").replace(",", "") for rule in mutants)])
    path = folder / f"{name}.py"
    path.write_text(text)
    return path, tuple(lines_with(text, BUG))


def accepted_lines(path: Path) -> set[int]:
    """Return the lines that a diagnosis may name: the wrong one, or where a missing step would have stood."""
    text = path.read_text()
    return {*lines_with(text, BUG), *lines_with(text, SHOWS)}
