"""Samples in another order are answered alike, in that order.

The batch is turned around.
"""

from collections.abc import Iterator

import torch

from softlookup.audited import Found, Noted
from softlookup.auditing.comparing import difference, every_row, one_forward
from softlookup.auditing.findings import disagreement
from softlookup.auditing.subject import SAMPLES, Subject

CODES = ("SL905",)
AFTER = ("batch_neighbours",)


def applies(subject: Subject) -> str:
    """Ask every model."""
    return ""


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Turn the batch around."""
    turned = torch.arange(SAMPLES).flip(0)
    one = one_forward(subject, subject.question())
    samples, times = every_row(SAMPLES, subject.answered)
    backwards = (SAMPLES - 1 - samples, times)
    question = subject.question(subject.tokens.flip(0), turned)
    source = {}
    if question.source is not None:
        places = every_row(SAMPLES, question.source.shape[1])
        source = {"source": (SAMPLES - 1 - places[0], places[1])}
    other = one_forward(subject, question, backwards, **source)
    if gap := difference(subject, one, other):
        words = "the samples of the batch were put in another order, and are answered differently"
        yield disagreement(subject, "SL905", words, gap, one, other)
