"""SL001: a target that could not be run, with the reason and what to write instead. No torch here."""

from __future__ import annotations

from softlookup.terms import Finding


def not_callable(reason: str, line: int | None = None, *, fix: str = "") -> Finding:
    """Return the finding; what follows ``try:`` in the reason is the advice, else ``fix``."""
    said, _, advice = reason.partition("try:")
    summary = "; ".join(" ".join(part.split()) for part in said.splitlines() if part.strip())
    return Finding("SL001", "not-callable", summary, line=line, fix=" ".join(advice.split()) or fix)
