"""Everything that a tensor can be, with what speaks for and against each, and who takes it so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from softlookup.conventions.discover import conventions
from softlookup.conventions.marks import Marks
from softlookup.conventions.meanings import Kind, Numbers, axes_of, document_like, four_axes, kinds_of
from softlookup.conventions.parts import at_one_end
from softlookup.conventions.plausible import against
from softlookup.conventions.spelling import Sizes, Takes
from softlookup.conventions.tensors import HIDES, dtype_kind

_ROWS_OF_A_TRIANGLE = 5  # so many lengths 1, 2, 3, ... are no coincidence
_ROUNDING = 0.02  # of a row of weights in bfloat16
_RISING = 4  # so many numbers that rise from 0 are no text


@dataclass(frozen=True, eq=False)
class Candidate:
    """One thing that a tensor can be.

    kind: "allowed", "blocked", "additive", or "lengths", "bounds", "document ids", "token ids"
    axes: e.g. "B 1 T_q T_k"
    against: sentences that speak against it; without any it is possible
    taken_by: arguments of APIs that take the tensor as it is and mean this, e.g. "F....(attn_mask)"
    """

    kind: Kind
    axes: str
    dtype: str
    against: tuple[str, ...] = ()
    taken_by: tuple[str, ...] = ()
    marks: Marks | None = field(default=None, repr=False)

    @property
    def words(self) -> str:
        """Say what an entry means, and the axes."""
        one = "True" if self.dtype == "bool" else "1"
        says = {
            "allowed": f"{one} = may look",
            "blocked": f"{one} = hidden",
            "additive": "added to the scores",
            "lengths": "real tokens of each sample",
            "bounds": "bounds of packed documents (cu_seqlens)",
            "document ids": "ids of packed documents",
            "token ids": "token ids or positions, and no mask",
        }
        return f"{says[self.kind]}, [{', '.join(self.axes.split())}]"


def candidates_of(tensor: Tensor, numbers: Numbers, sizes: Sizes) -> list[Candidate]:
    """Return what a tensor can be, the possible and likelier first."""
    found = [it for kind in kinds_of(tensor, numbers, sizes) for it in _of_kind(kind, tensor, numbers, sizes)]
    by_token = tensor.dim() == 2 and dtype_kind(tensor) == "int"
    likelier = ["B T_k"] if by_token else []
    return sorted(found, key=lambda it: (bool(it.against), it.axes not in likelier if likelier else False))


def _of_kind(kind: Kind, tensor: Tensor, numbers: Numbers, sizes: Sizes) -> Iterator[Candidate]:
    dtype = dtype_kind(tensor)
    if kind in ("lengths", "bounds"):
        axes = "B" if kind == "lengths" else "documents+1"
        empty = numbers.least == 0 if kind == "lengths" else not bool((tensor.diff() > 0).all())
        spoken: tuple[str, ...] = (
            (f"a {'sample' if kind == 'lengths' else 'document'} would have no token",) if empty else ()
        )
        yield Candidate(kind, axes, dtype, spoken, _taken_by(kind, axes, dtype))
    elif kind in ("document ids", "token ids"):
        spoken = tuple(_against_ids(kind, tensor, numbers, sizes))
        yield Candidate(kind, "B T_k" if tensor.dim() == 2 else "T_k", dtype, spoken)
    else:
        possible = axes_of(tuple(tensor.shape), sizes)
        for axes in possible:
            marks = _marks(kind, tensor, axes, sizes)
            samples = {
                "samples_possible": "B T_k" in possible,
                "samples_known": sizes.batch_size is not None,  # and it fits, or the axes were not possible
            }
            spoken = tuple(_against(kind, numbers, axes, marks, **samples))
            if kind == "additive" and _like_weights(tensor, numbers):
                spoken += ("every row sums to one, as the weights of attention do",)
            yield Candidate(kind, axes, dtype, spoken, _taken_by(kind, axes, dtype), marks)


def _like_weights(tensor: Tensor, numbers: Numbers) -> bool:
    """Say whether numbers between 0 and 1 sum to one in every row, as what a softmax returns."""
    if not 0 <= numbers.least < numbers.most < 1 or tensor.dim() < 2:  # a weight of 1 is a flag
        return False
    return bool(((tensor.sum(dim=-1, dtype=torch.float32) - 1).abs() < _ROUNDING).all())


def _marks(kind: Kind, tensor: Tensor, axes: str, sizes: Sizes) -> Marks:
    """Return what the tensor marks; for numbers that are added, what they leave visible."""
    marked = tensor if tensor.dtype == torch.bool else tensor > HIDES if kind == "additive" else tensor == 1
    return Marks(four_axes(marked, axes, sizes.num_heads), hides=kind == "blocked")


def _against(
    kind: Kind, numbers: Numbers, axes: str, marks: Marks, *, samples_possible: bool, samples_known: bool
) -> Iterator[str]:
    """What speaks against a mask of entries; a few rows of one more each may be samples too."""
    if kind == "additive":
        if numbers.flags and numbers.most > 0:
            yield "numbers 0 and 1 added to scores hide nothing"
        elif numbers.most > -HIDES:
            yield f"{numbers.most:g} added to a score gives that key all weight"
        elif not numbers.fills:
            return
    small = marks.square and marks.marked.shape[-1] < _ROWS_OF_A_TRIANGLE
    if axes == "B T_k":
        yield from _against_keys(marks, kind, samples_known=samples_known)
    elif kind == "additive":
        yield from (it for it in against(marks) if it.startswith("no query"))
    elif not (axes == "T_q T_k" and small and samples_possible and _no_triangle_stands(marks)):
        yield from against(marks)
    if axes == "T_q T_k" and not marks.square:
        yield from _against_two_axes(marks)


def _against_keys(marks: Marks, kind: Kind, *, samples_known: bool) -> Iterator[str]:
    """What speaks against one row of keys for each sample."""
    yield from (it for it in against(marks) if kind != "additive" or it.startswith("no query"))
    rows = marks.visible()[:, 0, 0]
    if len(rows) != rows.shape[-1] or len(rows) < _ROWS_OF_A_TRIANGLE:
        return
    if _one_more_each(marks) and not samples_known:  # so many samples may be so long
        yield "the samples would have 1, 2, 3, ... tokens, one more each"
    first_ones, last_ones = at_one_end(rows)
    if not bool((first_ones | last_ones).all()):
        yield "the real tokens of a sample would begin and end in the middle, or have holes"


def _no_triangle_stands(marks: Marks) -> bool:
    """Say whether rows of one more key each can be queries in neither reading: then they may be samples."""
    return _one_more_each(marks) and bool(against(marks)) and bool(against(marks.opposite()))


def _one_more_each(marks: Marks) -> bool:
    """Say whether every row shows one key more than the row before it, or one less."""
    counts = marks.visible().flatten(0, -2).sum(dim=-1)
    return len(counts) > 1 and bool((counts.diff() == 1).all() or (counts.diff() == -1).all())


def _against_ids(kind: Kind, tensor: Tensor, numbers: Numbers, sizes: Sizes) -> Iterator[str]:
    """What speaks against integers that are no mask."""
    if kind == "document ids":
        if numbers.flags and bool((tensor == 1).all(dim=-1).any()):
            yield "a sample would have no document 0"
        return
    if sizes.k_len not in (None, tensor.shape[-1]):
        yield f"T_k is {sizes.k_len}"
    if tensor.dim() == 2 and document_like(tensor):
        yield "no text goes up by one from 0"
    if (
        tensor.dim() == 1
        and len(tensor) >= _RISING
        and int(tensor[0]) == 0
        and bool((tensor.diff() > 0).all())
        and not bool((tensor.diff() == 1).all())  # positions, or bounds in decoding
    ):
        yield "no text goes up from 0"


def _against_two_axes(marks: Marks) -> Iterator[str]:
    """What speaks against queries and keys where the rows look like the padding of samples."""
    rows = marks.visible()[0, 0]
    steps = [b - a for a, b in pairwise(rows.sum(dim=-1).tolist())]
    like_padding = any(bool(it.all()) for it in at_one_end(rows))
    if like_padding and min(steps, default=0) < 0 < max(steps, default=0):
        yield "queries would see a number of keys that goes up and down"


def _taken_by(kind: Kind, axes: str, dtype: str) -> tuple[str, ...]:
    return tuple(
        f"{it.name} ({takes.argument})"
        for it in conventions()
        for takes in it.takes
        if takes.meaning == kind and takes.dtype == dtype and takes_axes(takes, axes)
    )


def takes_axes(takes: Takes, axes: str) -> bool:
    """Say whether an argument takes a tensor with these axes and means them so."""
    names = axes.split()
    for shape in takes.shapes:
        theirs = shape.split()
        if names == theirs:
            return True
        short = len(theirs) - len(names)
        broadcasts = takes.broadcast and short >= 0 and axes != "B T_k"
        if broadcasts and all(own in ("1", it) for own, it in zip(names, theirs[short:], strict=True)):
            return True
    return False
