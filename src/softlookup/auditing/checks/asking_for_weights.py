"""Asking for attention weights does not change the answers.

The plain question is asked with and without ``output_attentions``: by the implementation that the model uses,
and by the one of transformers that computes weights.
"""

from collections.abc import Iterator
from contextlib import nullcontext

from softlookup.audited import Found, Noted
from softlookup.auditing.comparing import difference, one_forward
from softlookup.auditing.findings import disagreement
from softlookup.auditing.paths import eager_attention
from softlookup.auditing.subject import Subject

CODES = ("SL902",)


def applies(subject: Subject) -> str:
    """Ask models that hand weights out."""
    return "" if subject.call.weights else "it has no argument that asks for attention weights"


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Ask with and without."""
    plain = subject.question()
    one, other = (one_forward(subject, it) for it in (plain.but(), plain.but(weights=True)))
    for path in (nullcontext(), eager_attention(subject)):
        with path:
            gap = difference(subject, one, other)
            if gap is not None:
                words = f"{subject.call.weights}=True was passed, and the answers are different"
                yield disagreement(subject, "SL902", words, gap, one, other)
                return
