"""Numbers over the steps at a bounded number of points: neighbours are joined, and no extreme is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from softlookup.live.numbers_of_heads import WORSE

_NAMES = tuple(WORSE)


@dataclass(frozen=True, eq=False)
class Series:
    """How the numbers of each head of a layer went.

    steps: first and last step of each point
    low, mean, high: by the name of the number, float64 [points, H], over the calls of a point in which it
        was measured and no NaN; NaN where there was none
    """

    steps: tuple[tuple[int, int], ...]
    low: dict[str, Tensor]
    mean: dict[str, Tensor]
    high: dict[str, Tensor]


@dataclass(eq=False)
class _Point:
    """What is kept of some calls in a row; every tensor is [names, H]."""

    first: int
    last: int
    calls: int
    low: Tensor  # inf where nothing was measured
    high: Tensor  # -inf there
    total: Tensor
    count: Tensor

    @classmethod
    def of(cls, step: int, numbers: Tensor) -> _Point:
        there = ~numbers.isnan()
        low, high, total = (torch.where(there, numbers, empty) for empty in (torch.inf, -torch.inf, 0.0))
        return cls(step, step, 1, low, high, total, there.double())

    def join(self, other: _Point) -> _Point:
        return _Point(
            self.first,
            other.last,
            self.calls + other.calls,
            torch.minimum(self.low, other.low),
            torch.maximum(self.high, other.high),
            self.total + other.total,
            self.count + other.count,
        )


class ThinnedSeries:
    """Numbers of calls, at ``most`` points or fewer: when these are full, every two neighbours become one."""

    def __init__(self, num_heads: int, most: int) -> None:
        self._num_heads, self._most = num_heads, max(2, most)
        self._calls = 1  # in a full point
        self._points: list[_Point] = []

    def add(self, steps: Sequence[int], numbers: Mapping[str, Tensor]) -> None:
        """Add the numbers of n calls, each [n, H], as ``head_numbers`` returns them."""
        missing = torch.full((len(steps), self._num_heads), torch.nan, dtype=torch.float64)
        together = torch.stack([numbers.get(name, missing) for name in _NAMES], dim=1)  # [n, names, H]
        for step, of_call in zip(steps, together, strict=True):
            self._add(_Point.of(step, of_call))

    def _add(self, new: _Point) -> None:
        if len(self._points) == self._most and self._points[-1].calls == self._calls:
            self._halve()
        if self._points and self._points[-1].calls < self._calls:
            self._points[-1] = self._points[-1].join(new)
        else:
            self._points.append(new)

    def _halve(self) -> None:
        self._calls *= 2
        pairs = zip(self._points[::2], self._points[1::2], strict=False)
        odd = self._points[-1:] if len(self._points) % 2 else []
        self._points = [first.join(second) for first, second in pairs] + odd

    def read(self) -> Series:
        """Return the series so far."""
        if not self._points:
            return Series((), {}, {}, {})
        low, high, total, count = (
            torch.stack([getattr(point, part) for point in self._points])
            for part in ("low", "high", "total", "count")
        )
        none = count == 0
        parts = low.masked_fill(none, torch.nan), total / count, high.masked_fill(none, torch.nan)
        each = [{name: part[:, row] for row, name in enumerate(_NAMES)} for part in parts]
        return Series(tuple((point.first, point.last) for point in self._points), *each)
