"""Padding on the left, hidden by its mask, changes nothing for the real tokens, once positions count from
them.

Every sample is asked alone and with four padded tokens before it: with the mask only, and with position ids
that count the real tokens where the model takes such. An encoder with absolute positions and no way to give
them is not wrong: that is noted. So is NaN from tokens that may look nowhere where the model generates
nothing, and such input is not promised.
"""

from collections.abc import Iterator

from softlookup.audited import Found, Noted
from softlookup.auditing.comparing import Difference, difference
from softlookup.auditing.findings import found_between
from softlookup.auditing.padding import PADS, Padded, cause_of, no_padding, streams
from softlookup.auditing.subject import Subject

CODES = ("SL105", "SL106", "SL111", "SL123", "SL401", "SL505", "SL906")
AFTER = ("causality", "whole_source", "right_padding")


def applies(subject: Subject) -> str:
    """Ask models that take a padding mask."""
    if not subject.by_token:
        return "it answers for a sample as a whole, which may be read off the first token"
    return no_padding(subject)


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Pad what is read, then what the encoder reads."""
    for stream in streams(subject):
        padded = stream.but(left=True)
        whose = "the source" if padded.stream == "source" else "each sample"
        by_mask = _gap(padded)
        takes_positions = bool(subject.call.positions) and padded.stream == "tokens"
        counted = padded.but(positions=True)
        gap = _gap(counted) if takes_positions else by_mask
        if gap is not None:
            yield _judged(counted if takes_positions else padded, gap, whose, takes_positions)
        elif by_mask is not None:
            yield Noted(
                "",
                f"with {PADS} hidden tokens before {whose} the answers move unless {subject.call.positions} "
                "count the real tokens",
                "SL505",
            )


def _gap(padded: Padded) -> Difference | None:
    return difference(padded.subject, padded.alone(), padded.side())


def _judged(padded: Padded, gap: Difference, whose: str, takes_positions: bool) -> Found | Noted:
    """Say whether it is a fault that left padding moves real tokens."""
    subject, cause = padded.subject, cause_of(padded)
    words = f"{PADS} hidden tokens were put before {whose}; {cause.words}"
    if cause.code == "SL401" and not callable(getattr(subject.model, "generate", None)):
        return Noted("", f"padding on the left is no input for it: {cause.words}", "SL401")
    if cause.code:
        return found_between(cause.code, words, gap, cause.blamed)
    if takes_positions:
        words = f"{words}, although {subject.call.positions} count the real tokens"
        return found_between("SL505", words, gap, cause.blamed)
    if subject.causal and not subject.call.source:
        return found_between("SL505", f"{words}, and no position ids can be given", gap, cause.blamed)
    return Noted(
        "", f"positions count from the first column: hidden tokens before {whose} move the answers", "SL505"
    )
