"""How the output of a module depends on its input: change one thing, and see which rows move.

The module is called with its own weights. No recipe is needed for this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from softlookup.checker.calls import Answer, Call, Recorded, Target, Value
from softlookup.checker.ways import Way

#: Rows move when they differ by more than this share of what other tokens everywhere would do.
_SHARE = 1e-4
_MOST_PLACES = 12  # tokens that are changed one by one


class Perturbed:
    """One module under one way of calling it."""

    def __init__(self, target: Target, way: Way, given: dict[str, Value] | None = None) -> None:
        self.target = target
        self.way = way
        self.given = given or {}  # arguments that every call gets, such as a mask
        self.x = way.x.random(1)
        self.memory = None if way.memory is None else way.memory.random(2)

    def asked(
        self,
        x: Tensor | None = None,
        memory: Tensor | None = None,
        given: dict[str, Value] | None = None,
        **more: Any,
    ) -> Call:
        """Write a call; what is left out is as in the first."""
        call = self.way.call(
            self.x if x is None else x,
            self.memory if memory is None else memory,
            {**self.given, **(given or {})},
            **more,
        )
        assert call is not None
        return call

    def outputs(self, calls: Sequence[Call]) -> list[Tensor | None]:
        """[B, rows, features] each; None where a call failed, or returned something of another shape."""
        answers = self.target.perform(list(calls))
        return [None if answer.failure else self.way.read(answer.result) for answer in answers]

    def output(self, call: Call) -> Tensor | None:
        """[B, rows, features] of one call."""
        return self.outputs([call])[0]

    def answer(self, call: Call) -> Answer:
        """Make one call."""
        return self.target.perform([call])[0]

    @cached_property
    def first(self) -> Tensor | None:
        """[B, rows, features]: the output for the first input."""
        return self.output(self.asked())

    @cached_property
    def reach(self) -> float:
        """How far the output moves when every token is another."""
        other = self.output(self.asked(self.way.x.random(3), self._other_memory()))
        if self.first is None or other is None or other.shape != self.first.shape:
            return 0.0
        return float((other - self.first).abs().max())

    def moved(self, one: Tensor | None, other: Tensor | None) -> Tensor | None:
        """[B, rows] bool: the rows that differ; None where they cannot be compared."""
        if one is None or other is None or one.shape != other.shape:
            return None
        differ = (one - other).abs().amax(dim=-1) > _SHARE * self.reach + 1e-7
        return differ | (one.isnan() != other.isnan()).any(dim=-1)

    def _other_memory(self) -> Tensor | None:
        return None if self.way.memory is None else self.way.memory.random(4)

    def another_sample(self, sample: int, *, kept: bool) -> Call:
        """Write the call in which this sample is another one, or with ``kept`` every other sample is."""
        changed = torch.arange(self.way.x.batch) == sample
        changed = (~changed if kept else changed)[:, None, None]
        memory = self._other_memory()
        return self.asked(
            torch.where(changed, self.way.x.random(3), self.x),
            None if memory is None or self.memory is None else torch.where(changed, memory, self.memory),
        )

    def neighbours(self) -> Tensor | None:
        """[B] bool: samples that move when others do."""
        if self.way.x.batch == 1:
            return None
        others = self.outputs(
            [self.another_sample(0, kept=True), self.another_sample(self.way.x.batch - 1, kept=False)]
        )
        first, last = (self.moved(self.first, other) for other in others)
        if first is None or last is None:
            return None
        return torch.cat([first[:1].any(dim=1), last[:-1].any(dim=1)])

    def places(self) -> list[int]:
        """Tokens that are changed one by one: all of a short input."""
        count = self.way.x.count
        return sorted(set(torch.linspace(0, count - 1, min(count, _MOST_PLACES)).long().tolist()))

    def influence(self) -> Tensor | None:
        """[rows, places] bool: which token moves which row, for some sample."""
        if self.way.follows != "x":
            return None
        other = self.way.x.random(3)
        calls = []
        for place in self.places():
            x = self.x.clone()
            x[:, place] = other[:, place]
            calls.append(self.asked(x))
        columns = [self.moved(self.first, found) for found in self.outputs(calls)]
        known = [column.any(dim=0) for column in columns if column is not None]
        return torch.stack(known, dim=1) if len(known) == len(columns) else None

    def gradient(self, row: int) -> Tensor | str | None:
        """[B, T, width]: the gradient of the input for one row of sample 1; None when it is cut off.

        Returns "failed" where it cannot be asked for.
        """
        answer = self.answer(self.asked())
        if self.first is None or answer.failure is not None:
            return "failed"
        cotangent = torch.zeros_like(self.first)
        sample = min(1, self.way.x.batch - 1)
        generator = torch.Generator().manual_seed(6)
        cotangent[sample, row] = torch.randn(self.first.shape[-1], generator=generator)
        asked = self.way.backward(answer.result, cotangent)
        answer = self.answer(self.asked(backward=asked))
        if answer.failure is not None or not answer.gradients:
            return "failed"
        found = answer.gradients[asked.wrt[0]]
        return None if found is None else self.way.x.canonical(found)

    def recorded(self, call: Call | None = None) -> tuple[tuple[Recorded, ...], dict[int | str, int]]:
        """Return every torch call that was made, and the serial numbers of the arguments."""
        answer = self.answer(replace(call or self.asked(), record=True))
        return answer.recorded, answer.arguments
