"""From two sides that disagree to a finding: the rule's name and fix, the first wrong layer, the numbers."""

from __future__ import annotations

from collections.abc import Mapping

from softlookup.audited import Found, Number
from softlookup.auditing.comparing import Blamed, Difference, Side, first_wrong
from softlookup.auditing.subject import Subject
from softlookup.catalog import find_rule


def found(
    code: str, words: str, layer: str | None = None, measured: Mapping[str, Number] | None = None
) -> Found:
    """Return a finding with the rule's own name and fix. Its check is filled in by whoever runs it."""
    entry = find_rule(code)
    return Found(code, entry.name, "", words, entry.part("Fix"), layer, dict(measured or {}))


def found_between(code: str, words: str, gap: Difference, blamed: Blamed | None) -> Found:
    """Return a finding about two sides that disagree. ``words`` are followed by what moved."""
    numbers: dict[str, Number] = {
        "moved by": rounded(gap.moved),
        "largest number": rounded(gap.largest),
        "rows that moved": len(gap.rows),
        "rows compared": gap.compared,
    }
    return found(code, f"{words}: {amount(gap)}", None if blamed is None else blamed.path, numbers)


def rounded(number: float) -> float:
    """Return a number with three digits that count."""
    return float(f"{number:.3g}")


def disagreement(subject: Subject, code: str, words: str, gap: Difference, one: Side, other: Side) -> Found:
    """Return a finding about two sides that disagree, with the first layer that does."""
    return found_between(code, words, gap, first_wrong(subject, one, other))


def amount(gap: Difference) -> str:
    """Say how far two sides are apart."""
    if gap.moved == float("inf"):
        return f"{len(gap.rows)} of {gap.compared} rows are NaN or inf on one side"
    how_many = f"{len(gap.rows)} of {gap.compared} rows"
    return f"{how_many} move, by up to {gap.moved:.2g} where numbers reach {gap.largest:.2g}"
