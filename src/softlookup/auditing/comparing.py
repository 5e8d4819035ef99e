"""Two ways to the same answer: do they agree, and which layer is the first that does not?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from softlookup.auditing.question import Answer, Question
from softlookup.auditing.subject import Subject
from softlookup.live.layer_outputs import LayerOutput, recorded_layers

Places = tuple[
    Tensor, Tensor
]  # samples [n] and times [n]: which rows are compared, in the order of comparing


@dataclass(frozen=True, eq=False)
class Side:
    """One of two ways to the same answers.

    ask: runs forwards; where they are several they follow each other in time
    rows: number of tokens in all forwards -> which of them are compared. Most encoders have another length.
    known: the answers, where they were asked for before
    """

    ask: Callable[[], Sequence[Answer]]
    rows: dict[int, Places]
    known: Sequence[Answer] = ()

    def answers(self) -> Sequence[Answer]:
        """Return the answers, without asking again where they are known."""
        return self.known or self.ask()


@dataclass(frozen=True)
class Difference:
    """How far two sides are apart.

    moved: largest difference;  largest: number of the first side;  rows: those that differ, of all that are
        compared
    """

    moved: float
    largest: float
    rows: tuple[int, ...]
    compared: int

    @property
    def relative(self) -> float:
        """The difference relative to the largest number."""
        return self.moved / max(self.largest, 1e-30)


def one_forward(subject: Subject, question: Question, rows: Places | None = None, **other: Places) -> Side:
    """Return the side that asks one question; without rows all of them are compared.

    other: source=rows of what the encoder reads; without it all of them, or those of a target of its length
    """
    length = subject.answered if subject.reader.kind == "opaque" else question.tokens.shape[1]
    places = {length: every_row(len(question.tokens), length) if rows is None else rows}
    source = None if question.source is None else question.source.shape[1]
    if source is not None and source not in places:
        places[source] = other.get("source", every_row(len(question.tokens), source))
    known = [subject.plain] if question is subject.plain_question else ()
    return Side(lambda: [subject.ask(question)], places, known)


def every_row(samples: int, length: int, start: int = 0) -> Places:
    """Return the places of all tokens from ``start`` on."""
    sample, time = torch.meshgrid(torch.arange(samples), torch.arange(start, length), indexing="ij")
    return sample.flatten(), time.flatten()


def later_tokens_replaced(subject: Subject) -> tuple[Side, Side]:
    """Return the answers for the tokens before the middle, and those after all later ones were replaced."""
    middle = subject.length // 2
    changed = subject.tokens.clone()
    changed[:, middle:] = subject.other_tokens(subject.tokens[:, middle:])
    rows = every_row(len(subject.tokens), middle)
    one, other = (one_forward(subject, subject.question(it), rows) for it in (subject.tokens, changed))
    return one, other


def rows_where(chosen: Tensor) -> Places:
    """Return the places that are True in a bool [B, T], sample by sample."""
    sample, time = chosen.cpu().nonzero(as_tuple=True)
    return sample, time


def difference(subject: Subject, one: Side, other: Side, tolerance: float | None = None) -> Difference | None:
    """Return how far two sides are apart, None where it is within rounding."""
    a, b = (
        _picked(_joined([it.output for it in side.answers()]), side.rows, whole=True) for side in (one, other)
    )
    assert a is not None
    assert b is not None
    found = apart(a, b)
    return found if found.relative > (tolerance or subject.tolerance) else None


def apart(a: Tensor, b: Tensor) -> Difference:
    """Return how far two [n, ...] are apart. A NaN on one side only is infinitely far."""
    a, b = a.float().flatten(1), b.float().flatten(1)
    gap = (a - b).abs()
    gap = torch.where(a.isnan() & b.isnan() | (a == b), 0.0, gap.nan_to_num(float("inf"), float("inf")))
    by_row = gap.amax(1)
    largest = float(a.nan_to_num(0, 0, 0).abs().max()) if a.numel() else 0.0
    moved = float(by_row.max()) if len(by_row) else 0.0
    rows = by_row > 1e-6 * max(largest, 1e-30)
    return Difference(moved, largest, tuple(rows.nonzero().flatten().tolist()), len(by_row))


@dataclass(frozen=True)
class Blamed:
    """The first layer that is wrong, and its difference. ``path`` is "" for the model itself."""

    path: str
    difference: Difference


def first_wrong(subject: Subject, one: Side, other: Side) -> Blamed | None:
    """Return the first module whose input agrees on the compared rows and whose output does not.

    None: nothing differs once the layers are looked at, or no layer has comparable rows.
    """
    recorded = [_recorded(subject, side) for side in (one, other)]
    for key, mine in recorded[0].items():
        yours = recorded[1].get(key)
        if yours is None or mine.output is None or yours.output is None:
            continue
        a, b = _picked(mine.output, one.rows), _picked(yours.output, other.rows)
        if a is None or b is None or a.shape != b.shape:
            continue
        found = apart(a, b)
        if found.relative <= subject.tolerance:
            continue
        if _same_given(subject, mine, yours, one, other):
            return Blamed(key[0], found)
    return None


def rows_of_layer(subject: Subject, side: Side, path: str) -> Tensor | None:
    """Return what one layer returned for the compared rows, [n, d]."""
    for key, call in _recorded(subject, side).items():
        if key == (path, 0) and call.output is not None:
            return _picked(call.output, side.rows)
    return None


def _same_given(subject: Subject, mine: LayerOutput, yours: LayerOutput, one: Side, other: Side) -> bool:
    if mine.given is None or yours.given is None:
        return True  # token ids: the same on the compared rows, or there would be nothing to compare
    a, b = _picked(mine.given, one.rows), _picked(yours.given, other.rows)
    return a is None or b is None or a.shape != b.shape or apart(a, b).relative <= subject.tolerance


def _recorded(subject: Subject, side: Side) -> dict[tuple[str, int], LayerOutput]:
    """Return the calls of every layer, those of several forwards joined in time."""
    with recorded_layers(subject.model) as seen:
        side.ask()
    groups: dict[tuple[str, int], list[LayerOutput]] = {}
    for call in seen.calls:
        groups.setdefault((call.path, call.number), []).append(call)
    return {key: _in_a_row(subject, calls) for key, calls in groups.items()}


def _in_a_row(subject: Subject, calls: list[LayerOutput]) -> LayerOutput:
    first = calls[0]

    def joined(tensors: list[Tensor | None]) -> Tensor | None:
        present = [it for it in tensors if it is not None and it.dim() >= 2]
        if len(present) != len(tensors):
            return None
        if not subject.call.batch_first:
            present = [it.transpose(0, 1) if it.dim() >= 3 else it for it in present]
        return _joined(present)

    return LayerOutput(
        first.path,
        first.forward,
        first.number,
        joined([it.given for it in calls]),
        joined([it.output for it in calls]),
    )


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    if len(tensors) == 1 or tensors[0].dim() < 3:
        return tensors[-1]
    alike = all(
        it.shape[:1] == tensors[0].shape[:1] and it.shape[2:] == tensors[0].shape[2:] for it in tensors
    )
    return torch.cat(list(tensors), 1) if alike else tensors[-1]


def _picked(tensor: Tensor, rows: dict[int, Places], *, whole: bool = False) -> Tensor | None:
    """Return the compared rows, [n, ...]; None where the tensor has no such rows.

    whole: without an axis of tokens it holds one row a sample
    """
    samples, times = next(iter(rows.values()))
    if tensor.dim() >= 3:
        if tensor.shape[1] not in rows:
            return None
        samples, times = rows[tensor.shape[1]]
        if len(samples) and int(samples.max()) >= len(tensor):
            return None
        return tensor[samples.to(tensor.device), times.to(tensor.device)]
    if not whole or tensor.dim() != 2:
        return None
    order = torch.tensor(list(dict.fromkeys(samples.tolist())), device=tensor.device)
    return tensor[order]
