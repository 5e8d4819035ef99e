"""The source may be longer than the target.

It is two tokens longer in every question; a model that refuses that is asked with sources of the same length
and this is noted: a mask of the target put on the keys of the source fails so, and so does a sum of both.
"""

from collections.abc import Iterator

from softlookup.audited import Found, Noted
from softlookup.auditing.subject import Subject

CODES = ("SL123",)


def applies(subject: Subject) -> str:
    """Ask models that read a source."""
    return "" if subject.source is not None else "it reads no source"


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Say what was met when the model was called for the first time."""
    if refused := subject.reader.refused_source:
        yield Noted("", f"sources of another length than the target are refused: {refused}", "SL123")
