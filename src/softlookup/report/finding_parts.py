"""The parts of a finding that every report for people shows: its facts, its pairs of matrices, its lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from softlookup.report.matrices import Matrix, as_matrix
from softlookup.terms import Diagnosis, Finding

#: Codes without a page -> what they say.
PAGELESS = {
    "SL000": "It differs from its contract, and no rule reproduces how.",
    "SL001": "It could not be run.",
}

_AROUND = 2  # lines of source shown before and after the wrong one
_DRAWN = {"case", "shown", "allowed", "weights", "output", "probe"}  # what the drawings say already
_PAIRS = ("weights", "output")  # keys of the evidence that hold {"yours": matrix, "right": matrix}


class Pair(NamedTuple):
    """Your matrix and the right one, of one case."""

    of: str  # "weights" or "output"
    title: str
    yours: Matrix
    right: Matrix


def facts(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield the labelled lines under a finding: facts first, then what to do."""
    for key, value in finding.evidence.items():
        if key == "shape" and not str(value)[:1].isalpha():
            continue  # which variant of the rule it was, where that is no word
        if key not in _DRAWN and key != "alternatives":
            yield key.replace("_", " "), _words(value)
    if alternatives := finding.evidence.get("alternatives"):
        yield "or perhaps", f"{_words(alternatives)} (the same answers)"
    if finding.consequence:
        yield "training", finding.consequence
    if finding.fix:
        yield "fix", finding.fix
    if finding.code not in PAGELESS:
        yield "more", f"softlookup explain {finding.name}"


def pairs(evidence: dict[str, Any]) -> Iterator[Pair]:
    """Yield each pair of matrices in the evidence; what is no matrix is left out."""
    for key in _PAIRS:
        pair = evidence.get(key)
        if not isinstance(pair, dict):
            continue
        yours, right = as_matrix(pair.get("yours")), as_matrix(pair.get("right"))
        if yours is None or right is None:
            continue
        case = [str(evidence[it]) for it in ("case", "shown") if it in evidence]
        yield Pair(key, ", ".join([f"{key} of the smallest case", *case]), yours, right)


def excerpt(lines: Sequence[str], wrong: int) -> list[tuple[int, str]]:
    """Return the numbered lines of source around the wrong one, without blank lines at the end.

    >>> excerpt(["a", "b", "c", ""], 3)
    [(1, 'a'), (2, 'b'), (3, 'c')]
    """
    first, last = max(1, wrong - _AROUND), min(len(lines), wrong + _AROUND)
    while last > wrong and not lines[last - 1].strip():
        last -= 1
    return [(number, lines[number - 1]) for number in range(first, last + 1)]


def path_in(root: str, file: str) -> str:
    """Return the path as seen from ``root``, with ``/``; a file elsewhere keeps its full path.

    >>> path_in("/work", "/work/src/a.py"), path_in("/work", "src/a.py")
    ('src/a.py', 'src/a.py')
    """
    full, top = Path(root, file), Path(root)
    return (full.relative_to(top) if full.is_relative_to(top) else full).as_posix()


def line_in(diagnosis: Diagnosis, finding: Finding) -> int:
    """Return the line to point at: the finding's, else its target's, else the first of the file."""
    return finding.line or diagnosis.line or 1


def _words(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_words(item) for item in value)
    return str(value)
