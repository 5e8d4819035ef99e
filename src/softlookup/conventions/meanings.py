"""What a tensor can mean, by its dtype and its numbers, and which axes its shape can have."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from softlookup.conventions.spelling import Sizes
from softlookup.conventions.tensors import HIDES

#: "allowed": marks show. "blocked": marks hide. "additive": added to the scores. The others are no masks of
#: entries: "lengths" of samples, "bounds" of packed documents (cu_seqlens), "document ids", "token ids".
Kind = Literal["allowed", "blocked", "additive", "lengths", "bounds", "document ids", "token ids"]

_AT_ONCE = 1 << 22
#: Of three axes or two, where the batch is 1: what means the same as what.
_SAME = {(2, 1): ("T_q T_k", "B T_k"), (3, 1): ("H T_q T_k", "B*H T_q T_k")}
_LISTED = 5  # different numbers that are told apart


@dataclass(frozen=True)
class Numbers:
    """The numbers of a tensor: the different ones when there are few, the least and the largest."""

    values: tuple[float, ...] | None
    least: float
    most: float
    ones_fraction: float  # how many are 1 (or True)
    has_nan: bool

    @classmethod
    def of(cls, tensor: Tensor) -> Numbers:
        """Look through a tensor, piece by piece, without a copy of it as floats."""
        if tensor.dtype == torch.bool:
            return cls(
                (0.0, 1.0), 0.0, 1.0, math.nan, False
            )  # counting them would cost a pass that nobody asks for
        flat = tensor.reshape(-1)
        values: set[float] | None = set()
        least, most, ones, has_nan = math.inf, -math.inf, 0, False
        for start in range(0, len(flat), _AT_ONCE):
            piece = flat[start : start + _AT_ONCE]
            least, most = min(least, float(piece.min())), max(most, float(piece.max()))
            has_nan = has_nan or (piece.dtype.is_floating_point and bool(piece.isnan().any()))
            ones += int((piece == 1).sum())
            if values is not None:
                values |= {float(it) for it in piece.unique().tolist()}  # type: ignore[no-untyped-call]
                values = values if len(values) <= _LISTED else None
        known = None if values is None else tuple(sorted(values))
        return cls(known, least, most, ones / max(len(flat), 1), has_nan)

    @property
    def flags(self) -> bool:
        """Say whether there is nothing but 0 and 1."""
        return self.values is not None and set(self.values) <= {0.0, 1.0}

    @property
    def fills(self) -> bool:
        """Say whether some number hides a key when it is added to its score."""
        return self.least <= HIDES


def axes_of(shape: tuple[int, ...], sizes: Sizes) -> list[str]:
    """Return the axes that a shape can have, the likelier first, with 1 for an axis of that size.

    >>> axes_of((2, 1, 5, 5), Sizes())
    ['B 1 T_q T_k']
    >>> axes_of((5, 5), Sizes(q_len=5, k_len=5, batch_size=2))
    ['T_q T_k']
    """
    named = {
        1: ["T_k"],
        2: ["T_q T_k", "B T_k"],
        3: ["B T_q T_k", "H T_q T_k", "B*H T_q T_k"],
        4: ["B H T_q T_k"],
    }.get(len(shape), [])
    fitting = [axes for axes in named if _fits(axes, shape, sizes)] or named
    same = _SAME.get((len(shape), shape[0] if len(shape) == 2 else sizes.batch_size or 0))
    if same and same[1] in fitting and sizes.q_len != 1:
        fitting = [axes for axes in fitting if axes != same[0]]
    return list(dict.fromkeys(_with_ones(axes, shape) for axes in fitting))


def in_four_axes(axes: str, num_heads: int | None) -> str:
    """Return what brings a tensor with these axes into [B, H, T_q, T_k], as an index or a call.

    >>> in_four_axes("B T_k", None)
    '[:, None, None, :]'
    """
    return {
        ("T_k",): "[None, None, None, :]",
        ("T_q", "T_k"): "[None, None]",
        ("B", "T_k"): "[:, None, None, :]",
        ("H", "T_q", "T_k"): "[None]",
        ("B*H", "T_q", "T_k"): f".unflatten(0, (-1, {num_heads or 'num_heads'}))",
        ("B", "T_q", "T_k"): "[:, None]",
    }.get(_general(axes), "")


def four_axes(tensor: Tensor, axes: str, num_heads: int | None) -> Tensor:
    """Return a view [B or 1, H or 1, T_q or 1, T_k or 1] of a tensor with these axes."""
    general = _general(axes)
    if general == ("B*H", "T_q", "T_k"):
        return tensor.unflatten(0, (-1, num_heads or 1))  # type: ignore[no-untyped-call, no-any-return]
    where = {"B": 0, "H": 1, "T_q": 2, "T_k": 3}
    full = [1, 1, 1, 1]
    for name, size in zip(general, tensor.shape, strict=True):
        full[where[name]] = size
    return tensor.reshape(full)


def _general(axes: str) -> tuple[str, ...]:
    """Return the names of all axes, those of size 1 by their place."""
    names = axes.split()
    place = {1: ("T_k",), 2: ("T_q", "T_k"), 3: ("B", "T_q", "T_k"), 4: ("B", "H", "T_q", "T_k")}[len(names)]
    if len(names) == 2 and names[0] == "B":
        return ("B", "T_k")
    return tuple(own if name == "1" else name for name, own in zip(names, place, strict=True))


def _fits(axes: str, shape: tuple[int, ...], sizes: Sizes) -> bool:
    said = {"B": sizes.batch_size, "H": sizes.num_heads, "T_q": sizes.q_len, "T_k": sizes.k_len}
    both = sizes.batch_size, sizes.num_heads
    said["B*H"] = None if None in both else (sizes.batch_size or 0) * (sizes.num_heads or 0)
    if axes == "B*H T_q T_k" and (sizes.num_heads == 1 or (sizes.num_heads and shape[0] % sizes.num_heads)):
        return False
    return all(
        said[name] is None or size == said[name] or (size == 1 and name != "B*H")
        for name, size in zip(axes.split(), shape, strict=True)
    )


def _with_ones(axes: str, shape: tuple[int, ...]) -> str:
    names = axes.split()
    kept = names[:-1] if len(names) > 1 else []
    if axes == "B T_k" and shape[0] == 1:
        return "B T_k"
    shown = ["1" if size == 1 else name for name, size in zip(kept, shape, strict=False)]
    return " ".join([*shown, names[-1]])


def document_like(ids: Tensor) -> bool:
    """Say whether integers [B, T] stay or go up by one, from 0 or 1 on, as ids of packed documents do."""
    steps = ids.diff(dim=-1)
    rising = (
        bool(((steps == 0) | (steps == 1)).all()) and bool((ids[:, 0] <= 1).all()) and bool((ids >= 0).all())
    )
    return rising and bool((steps == 0).any()) and int(ids.max()) >= 1


def kinds_of(tensor: Tensor, numbers: Numbers, sizes: Sizes) -> Iterator[Kind]:
    """Yield what a tensor can mean by its dtype, axes and numbers, the likelier first."""
    whole = not tensor.dtype.is_floating_point
    if numbers.flags:
        yield from ("allowed", "blocked")
    if not whole:
        yield "additive"
        return
    if tensor.dtype == torch.bool:
        return
    if tensor.dim() == 1:
        yield from _kinds_of_a_row(tensor, numbers, sizes)
    elif tensor.dim() == 2:
        if document_like(tensor) and tensor.dtype != torch.uint8:
            yield "document ids"
        if not numbers.flags:
            yield "token ids"


def _kinds_of_a_row(row: Tensor, numbers: Numbers, sizes: Sizes) -> Iterator[Kind]:
    rising = bool((row.diff() >= 0).all())
    if rising and len(row) > 1 and int(row[0]) == 0 and sizes.k_len in (None, int(row[-1])):
        yield "bounds"
    if (
        numbers.least >= 0
        and numbers.most <= (sizes.k_len or math.inf)
        and sizes.batch_size in (None, len(row))
    ):
        yield "lengths"
    if not numbers.flags:
        yield "token ids"
