"""Text that is read in chunks with a cache is answered as in one forward.

Three chunks: the tokens of a chunk find keys of earlier ones, and must not see each other's future.
"""

from collections.abc import Iterator

from softlookup.audited import Found, Noted
from softlookup.auditing.cached_steps import Pieces, judged, no_cache
from softlookup.auditing.subject import Subject

CODES = ("SL503", "SL601", "SL602")
AFTER = ("causality", "whole_source", "cached_decode")


def applies(subject: Subject) -> str:
    """Ask decoders that hand out a cache."""
    return no_cache(subject)


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Read in three chunks."""
    third = subject.length // 3
    chunks = (third, third + 1, subject.length - 2 * third - 1)
    if fault := judged(
        Pieces(subject, subject.question(), chunks), f"text that is read in chunks of {chunks}"
    ):
        yield fault
