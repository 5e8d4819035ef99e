"""Count, mean, variance and range of numbers that are seen in parts: parts merge, in any order and grouping.

Source: Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample
variances", Stanford STAN-CS-79-773.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Moments:
    """What is kept of the numbers seen so far; every tensor has one shape, e.g. [B, H].

    >>> first, second = Moments.of(torch.tensor([1.0, 2.0])), Moments.of(torch.tensor([6.0]))
    >>> both = first.merge(second)
    >>> int(both.count), float(both.mean), float(both.low), float(both.high)
    (3, 3.0, 1.0, 6.0)
    """

    count: Tensor  # int64: n
    mean: Tensor  # float64; NaN where nothing was seen
    m2: Tensor  # float64: sum of (x - mean)^2
    low: Tensor  # float64; inf where nothing was seen
    high: Tensor  # float64; -inf where nothing was seen

    @classmethod
    def of(cls, values: Tensor, where: Tensor | None = None, *, dim: int = -1) -> Moments:
        """Return the moments of ``values`` [..., n] along ``dim``: [...].

        where: bool, broadcastable to ``values``: only these count; None counts all. NaN among them shows.

        >>> Moments.of(torch.tensor([1.0, 3.0, 9.0]), torch.tensor([True, True, False])).std
        tensor(1., dtype=torch.float64)
        """
        hidden = torch.zeros_like(values, dtype=torch.bool) if where is None else ~where.expand_as(values)
        values = values.double()
        count = hidden.logical_not().sum(dim)
        numbers = values.masked_fill(hidden, 0.0)
        mean = numbers.sum(dim) / count  # 0 / 0 is NaN where nothing was seen
        m2 = (numbers - mean.unsqueeze(dim)).masked_fill_(hidden, 0.0).square_().sum(dim)
        low = -_most(values.masked_fill(hidden, math.inf).neg_(), dim).squeeze(dim)
        high = _most(values.masked_fill(hidden, -math.inf), dim).squeeze(dim)
        return cls(count, mean, m2, low, high)

    def merge(self, other: Moments) -> Moments:
        """Return the moments of all numbers of both: of the same shape, associative and commutative."""
        pairs = [(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)]
        return Moments(*(torch.stack(pair) for pair in pairs)).over(0)

    def over(self, dim: int, *, keepdim: bool = False) -> Moments:
        """Return the moments of all numbers of the parts along ``dim``.

        n = sum of n_p, mean = sum of n_p mean_p / n, m2 = sum of m2_p + n_p (mean_p - mean)^2

        Source: Chan, Golub and LeVeque 1979, equation 2.1, for any number of parts.
        """
        means = self.mean.masked_fill(self.count == 0, 0.0)
        count = self.count.sum(dim, keepdim=True)
        mean = (self.count * means).sum(dim, keepdim=True) / count.clamp(min=1)
        apart = (self.count * (means - mean) ** 2).sum(dim, keepdim=True)
        whole = Moments(
            count,
            mean.masked_fill(count == 0, math.nan),
            self.m2.sum(dim, keepdim=True) + apart,
            -_most(-self.low, dim),
            _most(self.high, dim),
        )
        return whole if keepdim else whole._each(lambda tensor: tensor.squeeze(dim))

    def unbind(self) -> tuple[Moments, ...]:
        """Return the moments of each part along the first axis."""
        parts = (getattr(self, field.name).unbind() for field in fields(self))
        return tuple(Moments(*tensors) for tensors in zip(*parts, strict=True))

    @property
    def std(self) -> Tensor:
        """float64: the standard deviation sqrt(m2 / count), of all that was seen; NaN where nothing was."""
        return (self.m2 / self.count).sqrt()

    def to(self, device: torch.device | str) -> Moments:
        """Return the same moments on another device."""
        return self._each(lambda tensor: tensor.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Moments:
        return Moments(*(change(getattr(self, field.name)) for field in fields(self)))


def _most(values: Tensor, dim: int) -> Tensor:
    """Return the largest along ``dim``, which stays as an axis of size 1; -inf of no values."""
    if values.shape[dim] == 0:
        return values.sum(dim, keepdim=True) - math.inf
    return values.amax(dim, keepdim=True)
