"""Text that is read token by token with a cache is answered as in one forward.

More than half of the text is read at once, the rest one token at a time, without saying where each token
stands: the model has to count. The first token that is answered differently is compared with one forward in
which it stands at another position, or does not see itself.
"""

from collections.abc import Iterator

from softlookup.audited import Found, Noted
from softlookup.auditing.cached_steps import Pieces, judged, no_cache
from softlookup.auditing.subject import Subject

CODES = ("SL503", "SL601", "SL602")
AFTER = ("causality", "whole_source")


def applies(subject: Subject) -> str:
    """Ask decoders that hand out a cache."""
    return no_cache(subject)


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Read at once, then token by token."""
    first = subject.length // 2 + 1
    pieces = Pieces(subject, subject.question(), (first, *[1] * (subject.length - first)))
    if fault := judged(pieces, f"text of which {first} tokens are read at once and then one at a time"):
        yield fault
