"""After beams are reordered, each goes on with its own past.

Part of the text is read, the cache is put in the order of samples 2, 0, 0, and one more token is read: as in
one forward over the reordered text.
"""

from collections.abc import Iterator

import torch

from softlookup.audited import Found, Noted
from softlookup.auditing.cached_steps import no_cache
from softlookup.auditing.comparing import Side, difference, one_forward
from softlookup.auditing.findings import disagreement
from softlookup.auditing.question import Answer
from softlookup.auditing.subject import Subject

CODES = ("SL603",)
AFTER = ("causality", "whole_source", "batch_neighbours", "cached_decode", "chunked_prefill")
_ORDER = (2, 0, 0)


def applies(subject: Subject) -> str:
    """Ask decoders whose cache can be put in another order."""
    reason = no_cache(subject)
    if reason:
        return reason
    cache = subject.ask(subject.question().but(keep_cache=True)).cache
    can = hasattr(cache, "reorder_cache") or hasattr(subject.model, "_reorder_cache")
    return "" if can else "its cache has no way to be put in another order"


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Read, reorder, go on."""
    order = torch.tensor(_ORDER, device=subject.tokens.device)
    first = subject.length - 1
    whole = subject.question(subject.tokens[order], order)

    def in_order() -> list[Answer]:
        plain = subject.question()
        read = subject.ask(plain.but(tokens=plain.tokens[:, :first], keep_cache=True))
        cache = _reordered(subject, read.cache, order)
        last = whole.but(tokens=whole.tokens[:, first:], cache=cache, keep_cache=True)
        return [subject.ask(last)]

    samples = torch.arange(len(order))
    one = one_forward(subject, whole, (samples, torch.full_like(samples, first)))
    other = Side(in_order, {1: (samples, torch.zeros_like(samples))})
    if gap := difference(subject, one, other):
        words = f"the cache was put in the order of samples {_ORDER} and one token was read"
        yield disagreement(subject, "SL603", words, gap, one, other)


def _reordered(subject: Subject, cache: object, order: torch.Tensor) -> object:
    if hasattr(cache, "reorder_cache"):
        return cache.reorder_cache(order) or cache
    return subject.model._reorder_cache(cache, order)  # type: ignore[operator]
