"""Rank correlation with ties, and how often chance does as well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations

import torch
from torch import Tensor

_ENUMERATED = 7  # numbers whose orders are all tried: 5,040


def average_ranks(values: Tensor) -> Tensor:
    """Return ranks from 1; equal values share the mean of theirs. values: [..., n] -> float64 [..., n].

    >>> average_ranks(torch.tensor([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    below = (values[..., None, :] < values[..., :, None]).double().sum(-1)
    equal = (values[..., None, :] == values[..., :, None]).double().sum(-1)
    return below + (equal + 1) / 2


def spearman(a: Tensor, b: Tensor) -> Tensor:
    """Return Spearman's rank correlation of a and b: [..., n] -> [...]; NaN where either does not vary.

    >>> round(float(spearman(torch.tensor([1.0, 2, 3, 4]), torch.tensor([1.0, 3, 2, 4]))), 3)
    0.8
    """
    x, y = average_ranks(a), average_ranks(b)
    x, y = x - x.mean(-1, keepdim=True), y - y.mean(-1, keepdim=True)
    return (x * y).sum(-1) / ((x * x).sum(-1) * (y * y).sum(-1)).sqrt()


def kendall(a: Tensor, b: Tensor) -> Tensor:
    """Return Kendall's tau-b of a and b: [..., n] -> [...]; NaN where either does not vary.

    >>> round(float(kendall(torch.tensor([1.0, 2, 3, 4]), torch.tensor([1.0, 3, 2, 4]))), 3)
    0.667
    """
    x = (a[..., :, None] - a[..., None, :]).sign().double()
    y = (b[..., :, None] - b[..., None, :]).sign().double()
    return (x * y).sum((-1, -2)) / (x.abs().sum((-1, -2)) * y.abs().sum((-1, -2))).sqrt()


def orders_of(n: int, most: int, draw: torch.Generator) -> tuple[Tensor, bool]:
    """Return orders [N, n] of n things, and whether these are all there are."""
    if n <= _ENUMERATED and math.factorial(n) <= most:
        return torch.tensor(list(permutations(range(n)))).view(-1, n), True
    return torch.rand(most, n, generator=draw).argsort(-1), False


def shuffled_correlations(a: Sequence[Tensor], b: Sequence[Tensor], *, draws: int, seed: int) -> Tensor:
    """Return mean Spearman correlations [draws] when each of a is shuffled and each of b stays.

    a, b: one pair of [n] an input; pairs that do not vary are left out by the caller
    """
    draw = torch.Generator().manual_seed(seed)
    found = torch.zeros(draws, dtype=torch.float64)
    for one, other in zip(a, b, strict=True):
        x, y = average_ranks(one), average_ranks(other)
        x, y = (x - x.mean()) / (x - x.mean()).norm(), (y - y.mean()) / (y - y.mean()).norm()
        order = torch.rand(draws, len(x), generator=draw).argsort(-1)
        found += x[order] @ y
    return found / len(a)
