"""Masks that keep their structure: a tree of rules under ``&``, ``|`` and ``~``, dense only when asked.

    Rule      one visibility rule with its parameters        causal(), padding([3, 5]): see rule.py
    Given     a tensor that somebody made                    Mask.from_tensor(allowed_mask)
    AllOf     every part allows the key                      a & b & c
    AnyOf     some part allows the key                       a | b
    Opposite  the part hides the key                         ~a

A fast path matches on it: ``case AllOf((Rule("causal_top_left"), Rule("padding_right") as rule))``, and reads
``rule.parameters["lengths"]``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

import torch
from torch import Tensor

from softlookup.masks.numbered import Numbered
from softlookup.masks.questions import AXES, Point, Visibility
from softlookup.terms import SoftlookupError


class Mask(Numbered, Visibility):
    """Who may look at whom. True means: this query may look at this key.

    Built by the functions of ``softlookup.masks``; combined with ``&``, ``|`` and ``~``, also with bool
    tensors; passed as it is to ``scaled_dot_product_attention``. Masks are immutable, and equal when their
    trees are equal.

    >>> from softlookup.masks import causal, padding
    >>> mask = causal() & padding([2, 3])
    >>> mask
    causal() & padding([2, 3])
    >>> mask.dense(3, 3).shape
    torch.Size([2, 1, 3, 3])
    >>> print(causal().draw(3, 3))
    1 . .
    1 1 .
    1 1 1
    >>> mask.explain(1, 2, batch=1)
    'key 2 is hidden from query 1 of sample 1: causal'
    """

    @staticmethod
    def from_tensor(allowed_mask: Tensor) -> Mask:
        """Wrap a tensor, copied, as a mask.

        allowed_mask: bool [T_q, T_k] or [B, H, T_q, T_k], each axis its size or 1, True = may look

        Raises: SoftlookupError when it is not bool, or has another number of axes.

        >>> Mask.from_tensor(torch.tensor([[True, False]])).explain(0, 1)
        'key 1 is hidden from query 0: the given tensor [1, 1, 1, 2]'
        """
        return Given(_with_four_axes(allowed_mask).detach().clone())

    @abstractmethod
    def leaves(self) -> Iterator[Mask]:
        """Yield the rules and tensors of the tree, from left to right."""

    def __and__(self, other: Mask | Tensor) -> Mask:
        return AllOf.of(self, _as_mask(other)) if isinstance(other, (Mask, Tensor)) else NotImplemented

    def __rand__(self, other: Tensor) -> Mask:
        return AllOf.of(_as_mask(other), self) if isinstance(other, Tensor) else NotImplemented

    def __or__(self, other: Mask | Tensor) -> Mask:
        return AnyOf.of(self, _as_mask(other)) if isinstance(other, (Mask, Tensor)) else NotImplemented

    def __ror__(self, other: Tensor) -> Mask:
        return AnyOf.of(_as_mask(other), self) if isinstance(other, Tensor) else NotImplemented

    def __invert__(self) -> Mask:
        return Opposite(self)

    def __bool__(self) -> bool:
        raise SoftlookupError(
            "masks: a mask is neither true nor false.", hint="combine masks with & | ~, not with and, or, not"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Given(Mask):
    """A tensor somebody made: bool [B or 1, H or 1, T_q or 1, T_k or 1]."""

    allowed_mask: Tensor

    @property
    def axes(self) -> frozenset[str]:
        """The axes that the answer depends on."""
        return frozenset(axis for axis, size in self.sizes.items() if size is not None)

    @property
    def sizes(self) -> dict[str, int | None]:
        """The sizes that are fixed."""
        return {
            axis: size if size != 1 else None
            for axis, size in zip(AXES, self.allowed_mask.shape, strict=True)
        }

    def leaves(self) -> Iterator[Mask]:
        """Yield the leaves of the tree."""
        yield self

    def _on(self, i: Tensor, j: Tensor, q_len: int, k_len: int) -> Tensor:
        q_size, k_size = self.allowed_mask.shape[-2:]
        rows, columns = (i if q_size != 1 else i * 0), (j if k_size != 1 else j * 0)
        return self.allowed_mask.to(i.device)[:, :, rows, columns]

    def _always_sees(self, q_len: int, k_len: int) -> frozenset[str]:
        return frozenset()

    def _tensors(self) -> list[Tensor]:
        return [self.allowed_mask]

    def _why_hidden(self, point: Point) -> str:
        return f"the given tensor {shape_of(self.allowed_mask)}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Given) and same_value(self.allowed_mask, other.allowed_mask)

    def __hash__(self) -> int:
        return hash(("given", *self.allowed_mask.shape))

    def __repr__(self) -> str:
        return f"Mask.from_tensor(bool{shape_of(self.allowed_mask)})"


@dataclass(frozen=True, repr=False)
class _Several(Mask):
    """Masks side by side; a part of the same kind is dissolved, so that (a & b) & c equals a & (b & c)."""

    parts: tuple[Mask, ...]

    @classmethod
    def of(cls, *masks: Mask) -> Mask:
        """Combine masks, after checking that their sizes agree."""
        several = cls(
            tuple(part for mask in masks for part in (mask.parts if isinstance(mask, cls) else (mask,)))
        )
        for axis in AXES:
            fixed = {part.sizes[axis]: part for part in several.parts if part.sizes[axis] is not None}
            if len(fixed) > 1:
                raise SoftlookupError(
                    "masks: these masks do not fit each other.",
                    expected=f"the same {axis} in both",
                    got=", ".join(f"{axis} = {size} in {part!r}" for size, part in fixed.items()),
                )
        return several

    @property
    def axes(self) -> frozenset[str]:
        """The axes that the answer depends on."""
        return frozenset().union(*(part.axes for part in self.parts))

    @property
    def sizes(self) -> dict[str, int | None]:
        """The sizes that are fixed."""
        return {axis: next((n for part in self.parts if (n := part.sizes[axis])), None) for axis in AXES}

    def leaves(self) -> Iterator[Mask]:
        """Yield the leaves of the tree."""
        for part in self.parts:
            yield from part.leaves()


class AllOf(_Several):
    """Every part allows the key."""

    def _on(self, i: Tensor, j: Tensor, q_len: int, k_len: int) -> Tensor:
        return reduce(and_, (part._on(i, j, q_len, k_len) for part in self.parts))

    def _always_sees(self, q_len: int, k_len: int) -> frozenset[str]:
        return frozenset.intersection(*(part._always_sees(q_len, k_len) for part in self.parts))

    def _why_hidden(self, point: Point) -> str:
        return " and ".join(part._why_hidden(point) for part in self.parts if not part._visible(point))

    def __repr__(self) -> str:
        return " & ".join(f"({part!r})" if isinstance(part, AnyOf) else repr(part) for part in self.parts)


class AnyOf(_Several):
    """Some part allows the key."""

    def _on(self, i: Tensor, j: Tensor, q_len: int, k_len: int) -> Tensor:
        return reduce(or_, (part._on(i, j, q_len, k_len) for part in self.parts))

    def _always_sees(self, q_len: int, k_len: int) -> frozenset[str]:
        return frozenset().union(*(part._always_sees(q_len, k_len) for part in self.parts))

    def _why_hidden(self, point: Point) -> str:
        return "neither " + " nor ".join(label_of(part) for part in self.parts) + " shows it"

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.parts))


@dataclass(frozen=True, repr=False)
class Opposite(Mask):
    """The part hides the key."""

    part: Mask

    @property
    def axes(self) -> frozenset[str]:
        """The axes that the answer depends on."""
        return self.part.axes

    @property
    def sizes(self) -> dict[str, int | None]:
        """The sizes that are fixed."""
        return self.part.sizes

    def leaves(self) -> Iterator[Mask]:
        """Yield the leaves of the tree."""
        yield from self.part.leaves()

    def _on(self, i: Tensor, j: Tensor, q_len: int, k_len: int) -> Tensor:
        return ~self.part._on(i, j, q_len, k_len)

    def _always_sees(self, q_len: int, k_len: int) -> frozenset[str]:
        return frozenset()

    def _why_hidden(self, point: Point) -> str:
        return f"{label_of(self)} shows only what {label_of(self.part)} hides"

    def __invert__(self) -> Mask:
        return self.part

    def __repr__(self) -> str:
        return f"~({self.part!r})" if isinstance(self.part, _Several) else f"~{self.part!r}"


def label_of(mask: Mask) -> str:
    """How a sentence names a mask: as it is written, less the empty brackets."""
    if isinstance(mask, Given):
        return f"the given tensor {shape_of(mask.allowed_mask)}"
    return repr(mask).replace("()", "")


def shape_of(tensor: Tensor) -> str:
    """Write the sizes of a tensor as a list."""
    return str(list(tensor.shape))


def same_value(a: Any, b: Any) -> bool:
    """Compare two parameters: tensors by their entries, on whatever device."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.equal(a.cpu(), b.cpu())
    return type(a) is type(b) and bool(a == b)


def _as_mask(other: Mask | Tensor) -> Mask:
    return other if isinstance(other, Mask) else Mask.from_tensor(other)


def _with_four_axes(allowed_mask: Tensor) -> Tensor:
    if not isinstance(allowed_mask, Tensor) or allowed_mask.dtype != torch.bool:
        got = str(allowed_mask.dtype) if isinstance(allowed_mask, Tensor) else type(allowed_mask).__name__
        raise SoftlookupError(
            "masks: this is not a mask of allowed keys.",
            expected="a bool tensor, True = this query may look at this key",
            got=got.removeprefix("torch."),
            hint="0/1 numbers: tensor.bool(); an additive bias of 0 and -inf: tensor == 0",
        )
    if allowed_mask.dim() not in (2, 4):
        hint = "one mask for each sample: tensor[:, None]; one for each head: tensor[None]"
        raise SoftlookupError(
            "masks: a mask tensor has two axes or four.",
            expected="[T_q, T_k] or [B, H, T_q, T_k]",
            got=str(list(allowed_mask.shape)),
            hint=hint if allowed_mask.dim() == 3 else "",
        )
    return allowed_mask if allowed_mask.dim() == 4 else allowed_mask[None, None]
