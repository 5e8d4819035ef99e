"""One row of one map changed, a change a sample: many removals in one forward, beside the unchanged row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from softlookup.experiments.intervening import intervene
from softlookup.experiments.intervention import At
from softlookup.experiments.metrics import Metric
from softlookup.experiments.one_input import Input
from softlookup.experiments.outputs import bytes_of, sample_of
from softlookup.experiments.row_facts import NOTHING

_MOST_BYTES = 1 << 29  # of what a model returns for a batch


@dataclass(frozen=True, eq=False)
class Change:
    """What becomes of a row. hidden: keys that are hidden before the softmax, so that the others get more

    factors: [T_k] the weights are multiplied by, and not normalised again;  row: [T_k] what stands for them
    """

    hidden: tuple[int, ...] = ()
    factors: Tensor | None = None
    row: Tensor | None = None


UNCHANGED = Change()


class Batches(Protocol):
    """How many samples a batch may have, and who is told how many runs are done."""

    @property
    def at_once(self) -> int:
        """Samples of a batch."""

    @property
    def tell(self) -> Callable[[int], None] | None:
        """Who is told."""


@dataclass(frozen=True, eq=False, repr=False)
class ChangedRow:
    """The intervention: sample b of the batch has changes[b]."""

    layer: str
    head: int
    query: int
    changes: Sequence[Change]

    def __repr__(self) -> str:
        return f"the row of query {self.query}, head {self.head}"

    def visible(self, at: At, allowed: Tensor) -> Tensor:
        """Hide keys from the query. allowed: [B, 1, 1, T_k]"""
        allowed = allowed.clone()
        for row, change in zip(allowed, self.changes, strict=True):
            row[..., list(change.hidden)] = False
        return allowed

    def normalize(self, at: At, weights: Tensor) -> Tensor:
        """Change the weights of the row. weights: [B, 1, 1, T_k]"""
        weights = weights.clone()
        for row, change in zip(weights, self.changes, strict=True):
            if change.factors is not None:
                row *= change.factors.to(row)
            if change.row is not None:
                row[...] = change.row.to(row)
        return weights


class RowRuns:
    """Runs one input with changes of one row, many at a time where the model takes batches.

    place: layer, head, query;  how.at_once: samples of a batch, of which two stay unchanged
    noise: the size of the difference between unchanged runs
    """

    def __init__(
        self, model: nn.Module, given: Input, place: tuple[str, int, int], metric: Metric, how: Batches
    ) -> None:
        self.model, self.given, self.place, self.metric = model, given, place, metric
        self.tell, self.noise, at_once = how.tell, 0.0, how.at_once
        self.plain = self._run([UNCHANGED])[0]
        at_once = min(at_once, _MOST_BYTES // max(1, bytes_of(self.plain)))
        self.at_once = at_once if at_once > 2 and self._takes_batches() else 1
        if self.at_once == 1:
            self.noise = self._size(self._run([UNCHANGED])[0], self.plain)

    def sizes(self, changes: Sequence[Change], other: Any = None) -> Tensor:
        """Return float64 [changes]: how far each changes the output, or brings it from another output."""
        found: list[float] = []
        step = max(1, self.at_once - 2)
        for start in range(0, len(changes), step):
            some = list(changes[start : start + step])
            if self.at_once == 1:
                outputs, plain = self._run(some), self.plain
            else:
                plain, *outputs, again = self._run([UNCHANGED, *some, UNCHANGED])
                self.noise = max(self.noise, self._size(again, plain))
            found += [self._size(it, plain if other is None else other) for it in outputs]
            if self.tell is not None:
                self.tell(len(some))
        return torch.tensor(found, dtype=torch.float64)

    def output(self, change: Change) -> Any:
        """Return what the model returns with a change."""
        return self._run([change])[0]

    def _size(self, output: Any, other: Any) -> float:
        return self.metric.size(output, other, self.plain, self.given)

    @torch.no_grad()
    def _run(self, changes: Sequence[Change]) -> list[Any]:
        given = self.given.repeated(len(changes)) if len(changes) > 1 else self.given
        with intervene(self.model, ChangedRow(*self.place, changes)):
            output = given.run(self.model)
        return [sample_of(output, row, len(changes)) for row in range(len(changes))]

    def _takes_batches(self) -> bool:
        """Whether a sample in a batch gives what it gives alone; some inputs cannot be repeated."""
        try:
            first, second = self._run([UNCHANGED, UNCHANGED])
            self.noise = max(self._size(it, self.plain) for it in (first, second))
        except Exception:
            self.noise = 0.0
            return False
        return self.noise < NOTHING / 5
