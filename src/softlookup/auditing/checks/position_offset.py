"""Without position ids the first token stands where it should, and with them tokens stand where they say.

Position ids 0, 1, 2, ... are given and left out, and given shifted by three. Where a shift changes nothing
positions are relative, and leaving them out must change nothing either. Where it does, leaving them out must
be the same as some start.
"""

from collections.abc import Iterator

import torch

from softlookup.audited import Found, Noted
from softlookup.auditing.comparing import Side, difference, one_forward
from softlookup.auditing.findings import disagreement
from softlookup.auditing.subject import SAMPLES, Subject

CODES = ("SL503",)
AFTER = ("causality",)
_STARTS = (1, 2, 3)


def applies(subject: Subject) -> str:
    """Ask models that are told where each token stands."""
    if not subject.by_token:
        return "it answers for a sample as a whole"
    return "" if subject.call.positions else "it takes no position ids"


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Leave them out, give them, shift them."""
    left_out, given, name = (
        one_forward(subject, subject.question()),
        _from(subject, 0),
        subject.call.positions,
    )
    given = Side(given.ask, given.rows, given.ask())
    relative = difference(subject, given, _from(subject, 3)) is None
    if relative and difference(subject, given, _from(subject, 0, 2)) is None:
        yield Noted("", f"{name} have no influence")
        return
    gap = difference(subject, given, left_out)
    starts = () if gap is None or relative else _STARTS
    if gap is None or any(difference(subject, left_out, _from(subject, start)) is None for start in starts):
        yield Noted(
            "", "positions are relative: a shift changes nothing" if relative else "positions are absolute"
        )
        return
    words = f"without {name} the answers are not those for positions that count from 0 or any of {_STARTS}"
    yield disagreement(subject, "SL503", words, gap, given, left_out)


def _from(subject: Subject, start: int, step: int = 1) -> Side:
    """Return the side with given positions ``start``, ``start + step``, ..."""
    length = subject.length
    positions = start + step * torch.arange(length, device=subject.tokens.device)
    return one_forward(subject, subject.question().but(positions=positions.repeat(SAMPLES, 1)))
