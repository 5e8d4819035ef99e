"""Text that is read in pieces with a cache, beside the same text in one forward; what tells them apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from softlookup.audited import Found
from softlookup.auditing.comparing import (
    Difference,
    Side,
    apart,
    difference,
    every_row,
    first_wrong,
    one_forward,
    rows_where,
)
from softlookup.auditing.findings import found_between
from softlookup.auditing.question import Answer, Question
from softlookup.auditing.subject import Subject
from softlookup.live.layer_outputs import recorded_layers

#: Names of modules that turn position ids into rotations or embeddings.
_MAKES_POSITIONS = re.compile(r"rotary|rope|wpe|pos_emb|position", re.I)


def no_cache(subject: Subject) -> str:
    """Return why a model cannot be asked with a cache; "" where it can."""
    return subject.remembered("no cache", lambda: _no_cache(subject))


def _no_cache(subject: Subject) -> str:
    if not subject.causal or not subject.by_token:
        return "only text that is read from left to right can be cached"
    if not subject.call.cache:
        return "it takes no cache"
    answer = subject.ask(subject.question().but(keep_cache=True))
    return "" if answer.cache is not None else "it returns no cache"


@dataclass(frozen=True, eq=False)
class Pieces:
    """A question that is asked in pieces, each with the cache of those before it.

    question: the whole of it, with ``real`` and ``positions`` where these are given
    lengths: of the pieces
    """

    subject: Subject
    question: Question
    lengths: tuple[int, ...]

    @property
    def total(self) -> int:
        """How many tokens are read."""
        return sum(self.lengths)

    def ask(self) -> Sequence[Answer]:
        """Run one forward a piece."""
        answers: list[Answer] = []
        start = 0
        for length in self.lengths:
            answers.append(
                self.subject.ask(self.piece(start, length, answers[-1].cache if answers else None))
            )
            start += length
        return answers

    def piece(self, start: int, length: int, cache: object) -> Question:
        """Return one piece of the question: its own tokens and positions, the mask of all tokens so far."""
        whole, end = self.question, start + length
        return whole.but(
            tokens=whole.tokens[:, start:end],
            real=None if whole.real is None else whole.real[:, :end],
            positions=None if whole.positions is None else whole.positions[:, start:end],
            cache=cache,
            keep_cache=True,
        )

    def side(self, rows: Tensor | None = None) -> Side:
        """Return the side that reads in pieces; ``rows`` [B, T]: which of them are compared."""
        total = self.total
        places = every_row(len(self.question.tokens), total) if rows is None else rows_where(rows)
        return Side(self.ask, {total: places})

    def whole(self, rows: Tensor | None = None) -> Side:
        """Return the side that reads all in one forward, without a cache."""
        return one_forward(self.subject, self.question, None if rows is None else rows_where(rows))


def judged(pieces: Pieces, words: str, rows: Tensor | None = None) -> Found | None:
    """Return what is wrong with reading in pieces, None where it agrees with reading in one forward.

    rows: bool [B, T], the tokens that are compared; without it all of them
    """
    subject = pieces.subject
    whole, stepwise = pieces.whole(rows), pieces.side(rows=rows)
    gap = difference(subject, whole, stepwise)
    if gap is None:
        return None
    code, why = _explained(pieces, gap, rows)
    blamed = first_wrong(subject, whole, stepwise)
    return found_between(code, f"{words} is answered differently from one forward; {why}", gap, blamed)


def _explained(pieces: Pieces, gap: Difference, rows: Tensor | None) -> tuple[str, str]:
    """Say which fault it is: of the first token that is wrong, asked in one forward with that fault."""
    places = pieces.side(rows=rows).rows[pieces.total]
    at = min(int(places[1][row]) for row in gap.rows)
    step = _piece_of(pieces, at)
    question = pieces.question
    if pieces.lengths[step] != 1 or question.real is not None:
        return "SL602", f"token {at} is the first"
    before = Pieces(pieces.subject, question, pieces.lengths[: step + 1])
    wrong = before.ask()[-1].output[:, -1]
    if module := _moved_positions(pieces, before, at):
        return "SL503", f"{module} gives token {at} another position in its step"
    position = _position_that_explains(pieces.subject, question, at, wrong)
    if position is not None:
        return "SL503", f"token {at} is answered as if it stood at position {position}"
    if _without_itself(pieces.subject, question, at, wrong):
        return "SL601", f"token {at} is answered as if it could not see itself"
    return "SL602", f"token {at} is the first"


def _piece_of(pieces: Pieces, at: int) -> int:
    ends = torch.tensor(pieces.lengths).cumsum(0)
    return int((ends > at).nonzero()[0])


def _moved_positions(pieces: Pieces, before: Pieces, at: int) -> str:
    """Return the module that makes other positions for a token in its own step; "" if there is none."""
    subject = pieces.subject
    with recorded_layers(subject.model) as whole:
        subject.ask(pieces.question)
    with recorded_layers(subject.model) as stepwise:
        before.ask()
    in_steps = {(it.path, it.number): it.output for it in stepwise.calls}  # the last forward remains
    for call in whole.calls:
        there = in_steps.get((call.path, call.number))
        if not _MAKES_POSITIONS.search(call.path) or call.output is None or there is None:
            continue
        if call.output.dim() < 3 or there.dim() < 3 or at >= call.output.shape[1] or there.shape[1] != 1:
            continue
        if apart(call.output[:1, at], there[:1, -1]).relative > subject.tolerance:
            return call.path
    return ""


def _position_that_explains(subject: Subject, question: Question, at: int, wrong: Tensor) -> int | None:
    """Return the wrong position at which the token ``at`` would be answered that way."""
    if not subject.call.positions:
        return None
    length = at + 1
    mask = torch.ones(1, 1, length, length, dtype=torch.bool, device=wrong.device).tril()
    candidates: tuple[int, ...] = (0, *range(at - 1, 0, -1), at + 1, at + 2)
    for position in candidates:
        places = torch.arange(length, device=wrong.device)
        places[-1] = position
        answer = _with_mask(subject, question, length, mask, places.repeat(len(question.tokens), 1))
        if answer is not None and apart(wrong, answer).relative <= subject.tolerance:
            return position
    return None


def _without_itself(subject: Subject, question: Question, at: int, wrong: Tensor) -> bool:
    """Say whether the token ``at`` would be answered that way if it did not see its own key."""
    length = at + 1
    mask = torch.ones(1, 1, length, length, dtype=torch.bool, device=wrong.device).tril()
    mask[..., -1, -1] = False
    answer = _with_mask(subject, question, length, mask, None)
    return answer is not None and apart(wrong, answer).relative <= subject.tolerance


def _with_mask(
    subject: Subject, question: Question, length: int, mask: Tensor, positions: Tensor | None
) -> Tensor | None:
    """Return the last token's answer with a mask [1, 1, T, T], True = visible; None: it takes no such."""
    name = subject.call.mask
    if not name or not hasattr(subject.config, "model_type"):
        return None
    if str(subject.config._attn_implementation) == "eager":  # adds its mask to the scores
        mask = torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, torch.finfo(torch.float32).min)
    given = question.but(
        tokens=question.tokens[:, :length],
        positions=positions,
        more={**question.more, name: mask.expand(len(question.tokens), -1, -1, -1)},
    )
    try:
        return subject.ask(given).output[:, -1]
    except (TypeError, ValueError, RuntimeError, IndexError):
        return None
