"""Padding on either side of what a model reads, and which rule is broken where it moves the real tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from softlookup.auditing.comparing import (
    Blamed,
    Places,
    Side,
    apart,
    difference,
    every_row,
    first_wrong,
    one_forward,
    rows_of_layer,
    rows_where,
)
from softlookup.auditing.question import Question
from softlookup.auditing.subject import SAMPLES, Subject

PADS = 4
Stream = Literal["tokens", "source"]


@dataclass(frozen=True, eq=False)
class Padded:
    """A stream of a model with padding on one side.

    stream: what is padded;  left: whether on the left;  positions: whether position ids count the real tokens
    content: seed of random content of the padding; 0: the pad id, or zeros
    """

    subject: Subject
    stream: Stream = "tokens"
    left: bool = False
    positions: bool = False
    content: int = 0

    def but(self, **changes: object) -> Padded:
        """Return the same with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def plain(self) -> Tensor:
        """The stream without padding."""
        source = self.subject.source
        return source if self.stream == "source" and source is not None else self.subject.tokens

    @property
    def real(self) -> Tensor:
        """Bool [3, T + 4], True = a real token."""
        length = self.plain.shape[1]
        real = torch.ones(SAMPLES, length + PADS, dtype=torch.bool, device=self.plain.device)
        real[:, slice(PADS) if self.left else slice(length, None)] = False
        return real

    @property
    def tokens(self) -> Tensor:
        """The stream with its padding."""
        pads = self.subject.padding(SAMPLES, PADS)
        if self.content:
            pads = self.subject.other_tokens(pads, seed=self.content)
        return torch.cat([pads, self.plain] if self.left else [self.plain, pads], 1)

    def alone(self) -> Side:
        """The side without padding."""
        question = self.subject.question()
        if self.positions:
            length = self.plain.shape[1]
            question = question.but(
                positions=torch.arange(length, device=self.plain.device).repeat(SAMPLES, 1)
            )
        return one_forward(self.subject, question)

    def question(self, *, masked: bool = True) -> Question:
        """The question with padding and its mask; not ``masked``: with a mask that hides nothing."""
        plain, real = self.subject.question(), self.real if masked else torch.ones_like(self.real)
        if self.stream == "source":
            return plain.but(source=self.tokens, source_real=real)
        positions = (self.real.long().cumsum(1) - 1).clamp_min(0) if self.positions else None
        return plain.but(tokens=self.tokens, real=real, positions=positions)

    def side(self, *, masked: bool = True, every: bool = False) -> Side:
        """The side with padding; real rows are compared, with ``every`` those of the padding as well."""
        question, length = self.question(masked=masked), self.plain.shape[1] + PADS
        rows: Places = every_row(SAMPLES, length) if every else rows_where(self.real)
        if self.stream == "source":
            return one_forward(self.subject, question, source=rows)
        return one_forward(self.subject, question, rows)


def no_padding(subject: Subject) -> str:
    """Return why a model cannot be asked with padding; "" where it can."""
    if subject.reader.kind == "opaque":
        return "what it reads has no padding"
    return "" if subject.call.mask or subject.call.source_mask else "it takes no padding mask"


def streams(subject: Subject) -> Iterator[Padded]:
    """Yield what can be padded."""
    if subject.call.mask and subject.reader.kind != "opaque":
        yield Padded(subject)
    source = subject.reader.source_reader
    if subject.call.source_mask and source is not None and source.kind != "opaque":
        yield Padded(subject, "source")


@dataclass(frozen=True)
class Cause:
    """Why padding moves real tokens. code: "" where its content is not seen, only its place or number."""

    code: str
    words: str
    blamed: Blamed | None


def cause_of(padded: Padded) -> Cause:
    """Ask again with other padding, without the mask, with other real tokens: what is the mask taken for?"""
    subject, one, other = padded.subject, padded.side(), padded.but(content=1).side()
    if not all(answer.output.isfinite().all() for answer in one.ask()):
        words = "tokens that may look nowhere give NaN, which spreads"
        return Cause("SL401", words, first_wrong(subject, padded.alone(), one))
    if difference(subject, one, other) is None:
        return Cause("", "what the padding holds does not matter", first_wrong(subject, padded.alone(), one))
    blamed = first_wrong(subject, one, other)
    path = "" if blamed is None else blamed.path
    if padded.stream == "source" and path.startswith("decoder") | (".decoder" in path):
        return Cause("SL123", f"{path} looks at the padding of what the encoder read", blamed)
    with_mask, without = (
        rows_of_layer(subject, padded.side(masked=masked, every=True), path) for masked in (True, False)
    )
    if with_mask is None or without is None or with_mask.shape != without.shape:
        return Cause("SL906", "the padding is looked at", blamed)
    if apart(with_mask, without).relative <= subject.tolerance:
        return Cause("SL105", "the mask that hides it has no influence", blamed)
    real = padded.real.flatten().to(with_mask.device)
    if apart(with_mask[real], without[real]).relative <= subject.tolerance:
        return Cause("SL111", "the mask moves the padded queries only, padded keys stay visible", blamed)
    if not _sees_real_tokens(padded, path):
        return Cause("SL106", "real tokens look at the padding and not at each other", blamed)
    return Cause("SL906", "the padding is looked at", blamed)


def _sees_real_tokens(padded: Padded, path: str) -> bool:
    """Say whether other real tokens move when one of them is replaced."""
    subject, real = padded.subject, padded.real
    first = PADS if padded.left else 0
    question = padded.question()
    changed = padded.tokens.clone()
    changed[:, first] = subject.other_tokens(changed[:, first : first + 1])[:, 0]
    real[:, first] = False
    stream = "source" if padded.stream == "source" else "tokens"
    name = {"source": rows_where(real)} if stream == "source" else {}
    rows = None if stream == "source" else rows_where(real)
    sides = [
        one_forward(subject, question.but(**{stream: it}), rows, **name) for it in (padded.tokens, changed)
    ]
    a, b = (rows_of_layer(subject, side, path) for side in sides)
    return a is None or b is None or apart(a, b).relative > subject.tolerance
