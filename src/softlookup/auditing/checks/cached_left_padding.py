"""Text with padding on the left is answered token by token, with a cache, as in one forward.

The second sample is padded by two tokens and the third by four; position ids count the real tokens where the
model takes such.
"""

from collections.abc import Iterator

import torch

from softlookup.audited import Found, Noted
from softlookup.auditing.cached_steps import Pieces, judged, no_cache
from softlookup.auditing.subject import SAMPLES, Subject

CODES = ("SL503", "SL602")
AFTER = ("causality", "whole_source", "left_padding", "cached_decode", "chunked_prefill")


def applies(subject: Subject) -> str:
    """Ask decoders that hand out a cache and take a padding mask."""
    return no_cache(subject) or ("" if subject.call.mask else "it takes no padding mask")


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Pad, then read at once and token by token."""
    tokens = subject.tokens.clone()
    real = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
    for sample in range(1, SAMPLES):
        tokens[sample, : 2 * sample] = subject.padding(1, 2 * sample)[0]
        real[sample, : 2 * sample] = False
    positions = (real.long().cumsum(1) - 1).clamp_min(0) if subject.call.positions else None
    first = subject.length // 2 + 1
    question = subject.question(tokens).but(real=real, positions=positions)
    pieces = Pieces(subject, question, (first, *[1] * (subject.length - first)))
    words = "a batch with padding on the left that is read token by token"
    if fault := judged(pieces, words, real):
        yield fault
