"""In evaluation mode the same input gives the same output.

The plain question is asked twice, without setting the random generators back in between.
"""

from collections.abc import Iterator

from softlookup.audited import Found, Noted
from softlookup.auditing.comparing import difference, one_forward
from softlookup.auditing.findings import disagreement
from softlookup.auditing.subject import Subject

CODES = ("SL801",)


def applies(subject: Subject) -> str:
    """Ask every model."""
    return ""


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Ask the same twice."""
    one = one_forward(subject, subject.question().but())  # a copy, so that it is asked each time
    # The usual tolerance is measured by asking twice, so it would grant what is looked for here.
    if gap := difference(subject, one, one, 1e-5):
        words = "two passes in evaluation mode over the same input differ"
        yield disagreement(subject, "SL801", words, gap, one, one)
