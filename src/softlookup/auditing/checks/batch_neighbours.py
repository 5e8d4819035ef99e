"""What a sample is answered does not depend on the others of its batch.

All samples but the first are replaced by others.
"""

from collections.abc import Iterator

import torch

from softlookup.audited import Found, Noted
from softlookup.auditing.comparing import difference, every_row, one_forward
from softlookup.auditing.findings import disagreement
from softlookup.auditing.subject import Subject

CODES = ("SL905",)


def applies(subject: Subject) -> str:
    """Ask every model."""
    return ""


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Replace the neighbours, in what is read and in what the encoder reads."""
    plain = subject.question()
    changed = plain.but(tokens=_others(subject, plain.tokens))
    if plain.source is not None and subject.reader.source_reader is not None:
        changed = changed.but(source=_others(subject, plain.source))
    rows = every_row(1, subject.answered)
    source = {} if plain.source is None else {"source": every_row(1, plain.source.shape[1])}
    one, other = (one_forward(subject, it, rows, **source) for it in (plain, changed))
    if gap := difference(subject, one, other):
        words = "the other samples of the batch were replaced, and sample 0 is answered differently"
        yield disagreement(subject, "SL905", words, gap, one, other)


def _others(subject: Subject, values: torch.Tensor) -> torch.Tensor:
    changed = values.clone()
    changed[1:] = subject.other_tokens(values[1:])
    return changed
