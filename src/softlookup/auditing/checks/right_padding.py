"""Padding on the right, hidden by its mask, changes nothing for the real tokens.

Every sample is asked alone and with four padded tokens behind it. Where something moves, the padding gets
another
content, the mask is left out, and a real token is replaced: that tells what the mask was taken for.
"""

from collections.abc import Iterator

from softlookup.audited import Found, Noted
from softlookup.auditing.comparing import difference
from softlookup.auditing.findings import found_between
from softlookup.auditing.padding import PADS, cause_of, no_padding, streams
from softlookup.auditing.subject import Subject

CODES = ("SL105", "SL106", "SL111", "SL123", "SL401", "SL906")
AFTER = ("causality", "whole_source")


def applies(subject: Subject) -> str:
    """Ask models that take a padding mask."""
    return no_padding(subject)


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Pad what is read, then what the encoder reads."""
    for padded in streams(subject):
        alone, side = padded.alone(), padded.side()
        as_padded = difference(subject, alone, side)
        gap = as_padded or difference(subject, side, padded.but(content=1).side())
        if gap is None:
            continue
        cause = cause_of(padded)
        if as_padded is None and cause.blamed is not None and not subject.attends(cause.blamed.path):
            words = "tokens take in what hidden ones beside them hold; with the id to pad with nothing moves"
            yield Noted("", f"{words}: {cause.blamed.path}", cause.code)
            continue
        whose = "the source" if padded.stream == "source" else "each sample"
        words = f"{PADS} hidden tokens were put behind {whose}; {cause.words}"
        yield found_between(cause.code or "SL906", words, gap, cause.blamed)
