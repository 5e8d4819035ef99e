"""A token does not see later tokens.

The tokens from the middle on are replaced by others: what is answered for the tokens before may not move.
Which layer moves first, and which of its rows, tells one fault from another.
"""

from collections.abc import Iterator

from softlookup.audited import Found, Noted
from softlookup.auditing.comparing import (
    Blamed,
    apart,
    difference,
    every_row,
    first_wrong,
    later_tokens_replaced,
    one_forward,
    rows_of_layer,
)
from softlookup.auditing.findings import found_between
from softlookup.auditing.subject import Subject

CODES = ("SL101", "SL102", "SL103", "SL106")


def applies(subject: Subject) -> str:
    """Ask models that promise it and answer for each token."""
    if not subject.by_token:
        return "it answers for a sample as a whole"
    return "" if subject.causal else "the model does not promise to be causal; say so with causal=True"


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Change the later tokens."""
    one, other = later_tokens_replaced(subject)
    middle, gap = subject.length // 2, difference(subject, one, other)
    if gap is None:
        return
    blamed = first_wrong(subject, one, other)
    code, words = _which(subject, middle, blamed)
    yield found_between(code, f"tokens from {middle} on were replaced; {words}", gap, blamed)


def _which(subject: Subject, middle: int, blamed: Blamed | None) -> tuple[str, str]:
    """Say which fault it is, by the rows of the first wrong layer that move."""
    if blamed is None:
        return "SL101", "earlier tokens are answered differently"
    moved = {row % middle for row in blamed.difference.rows}
    if moved == {middle - 1}:
        return (
            "SL102",
            f"in {blamed.path or 'the model'} only token {middle - 1} moves: each sees its next one",
        )
    if moved == {0}:
        return "SL103", "only the first token moves, which sees everything because nothing is visible to it"
    if not _sees_past(subject, blamed.path):
        return "SL106", f"and in {blamed.path or 'the model'} a token sees later ones and no earlier ones"
    return "SL101", "earlier tokens are answered differently"


def _sees_past(subject: Subject, path: str) -> bool:
    """Say whether the rows of a layer move when the first token is replaced."""
    changed = subject.tokens.clone()
    changed[:, :1] = subject.other_tokens(subject.tokens[:, :1])
    rows = every_row(len(changed), subject.length, 1)
    sides = [one_forward(subject, subject.question(it), rows) for it in (subject.tokens, changed)]
    a, b = (rows_of_layer(subject, side, path) for side in sides)
    if a is None or b is None:
        return True
    last = [i for i, time in enumerate(rows[1].tolist()) if time < subject.length - 1]
    return apart(a[last], b[last]).relative > subject.tolerance  # the last may see nothing, hence everything
