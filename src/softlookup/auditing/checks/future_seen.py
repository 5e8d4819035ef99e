"""A note only: whether a token sees later ones, where neither the model nor the user says if it may.

The later tokens are replaced, as for a model that promises to be causal.
"""

from collections.abc import Iterator

from softlookup.audited import Found, Noted
from softlookup.auditing.comparing import difference, later_tokens_replaced
from softlookup.auditing.subject import Subject

CODES = ("SL101",)


def applies(subject: Subject) -> str:
    """Ask models that answer for each token and are silent about it."""
    if not subject.by_token:
        return "it answers for a sample as a whole"
    return (
        "" if subject.silent else "whether it is causal was said, by the user or by the kind of model it is"
    )


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Replace the later tokens."""
    if difference(subject, *later_tokens_replaced(subject)) is None:
        yield Noted("", "no token sees later ones; with causal=True (--causal) that is a promise")
    else:
        words = "tokens see later ones: right in an encoder; a decoder needs causal=True (--causal)"
        yield Noted("", words, "SL101")
