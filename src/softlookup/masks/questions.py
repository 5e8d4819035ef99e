"""What one can ask a mask: its dense tensor, its drawing, why a key is hidden, which rows are empty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from softlookup.masks.accept import whole_number
from softlookup.terms import SoftlookupError

AXES = ("B", "H", "T_q", "T_k")
_ROWS_AT_ONCE = 256  # empty_rows looks at so many queries at a time, to stay far below T_q x T_k bytes


class Point(NamedTuple):
    """One question to a mask: may query i look at key j?"""

    i: int
    j: int
    q_len: int
    k_len: int
    batch: int = 0
    head: int = 0


class Visibility(ABC):
    """A rule or a combination of rules: what each kind tells, and the questions that it answers."""

    @property
    @abstractmethod
    def axes(self) -> frozenset[str]:
        """The axes, out of B, H, T_q and T_k, that the answer depends on."""

    @property
    @abstractmethod
    def sizes(self) -> dict[str, int | None]:
        """The size of each axis B, H, T_q and T_k where the mask fixes it; None where any size will do."""

    @abstractmethod
    def leaves(self) -> Iterator[Visibility]:
        """Yield the rules and tensors of the tree, from left to right."""

    @abstractmethod
    def _on(self, i: Tensor, j: Tensor, q_len: int, k_len: int) -> Tensor:
        """Answer for ``i: [q, 1]`` and ``j: [1, k]``: bool, broadcastable to [B or 1, H or 1, q, k]."""

    @abstractmethod
    def _always_sees(self, q_len: int, k_len: int) -> frozenset[str]:
        """Name keys that no query misses: see ``predicate``."""

    @abstractmethod
    def _why_hidden(self, point: Point) -> str:
        """Name what hides the key of a point that is hidden."""

    def dense(self, q_len: int, k_len: int, *, device: torch.device | str | None = None) -> Tensor:
        """Return the mask as bool [B or 1, H or 1, q_len, k_len], True = this query may look at this key.

        The result may be a view that repeats one row: clone it before writing into it.

        Raises: SoftlookupError when the lengths do not fit the mask.

        >>> from softlookup.masks import padding
        >>> padding([1, 2]).dense(1, 3).tolist()
        [[[[True, False, False]]], [[[True, True, False]]]]
        """
        self._check(q_len, k_len)
        i = torch.arange(q_len, device=self._home() if device is None else device)
        return self._answer(i, q_len, k_len)

    def draw(self, q_len: int, k_len: int) -> str:
        """Return a drawing: a row for each query, ``1`` for a visible key, ``.`` for a hidden one.

        A mask that differs between samples or heads is drawn once for each, under a line that says which.

        Raises: SoftlookupError when the lengths do not fit the mask.

        >>> from softlookup.masks import padding
        >>> print(padding([1, 2]).draw(1, 3))
        batch 0
        1 . .
        batch 1
        1 1 .
        """
        lines = []
        for b, sample in enumerate(self.dense(q_len, k_len).tolist()):
            for h, rows in enumerate(sample):
                which = [f"batch {b}"] * ("B" in self.axes) + [f"head {h}"] * ("H" in self.axes)
                lines += [", ".join(which)] * bool(which)
                lines += [" ".join("1" if visible else "." for visible in row) for row in rows]
        return "\n".join(lines)

    def explain(
        self,
        i: int,
        j: int,
        *,
        q_len: int | None = None,
        k_len: int | None = None,
        batch: int = 0,
        head: int = 0,
    ) -> str:
        """Say whether query i may look at key j, and which rules hide it.

        Lengths that are not given are those that the mask fixes, or else the smallest that hold i, j and each
        length in the mask; rules that count from the last key (corner="bottom-right", left padding) need the
        real ones.

        Raises: SoftlookupError for a position, sample or head outside the mask, or lengths that do not fit.

        >>> from softlookup.masks import causal, sliding_window
        >>> causal().explain(3, 5)
        'key 5 is hidden from query 3: causal'
        >>> (causal() & sliding_window(2)).explain(3, 2)
        'key 2 is visible to query 3'
        """
        square = max(i, j) + 1
        q_len = (self.sizes["T_q"] or square) if q_len is None else q_len
        k_len = (self.sizes["T_k"] or max(square, self._least_k_len())) if k_len is None else k_len
        self._check(q_len, k_len)
        point = Point(i, j, q_len, k_len, batch, head)
        self._check_point(point)
        where = [f"sample {batch}"] * ("B" in self.axes) + [f"head {head}"] * ("H" in self.axes)
        query = f"query {i}" + (" of " + ", ".join(where) if where else "")
        if self._visible(point):
            return f"key {j} is visible to {query}"
        return f"key {j} is hidden from {query}: {self._why_hidden(point)}"

    def empty_rows(self, q_len: int, k_len: int) -> list[tuple[int, int, int]]:
        """Return (batch, head, query) of every query that may look at no key; such a row has no softmax.

        Answered from the rules alone where they guarantee a key (causal: the first), without a tensor.
        Batch and head are 0 where the mask does not differ between them.

        Raises: SoftlookupError when the lengths do not fit the mask.

        >>> from softlookup.masks import causal, padding
        >>> (causal() & padding([3, 2])).empty_rows(3, 3)
        []
        >>> (causal() & padding([3, 2], side="left")).empty_rows(3, 3)
        [(1, 0, 0)]
        """
        self._check(q_len, k_len)
        if k_len and self._always_sees(q_len, k_len):
            return []
        empty: list[tuple[int, int, int]] = []
        for start in range(0, q_len, _ROWS_AT_ONCE):
            i = torch.arange(start, min(start + _ROWS_AT_ONCE, q_len), device=self._home())
            rows = (~self._answer(i, q_len, k_len).any(dim=-1)).nonzero().tolist()
            empty += [(batch, head, start + query) for batch, head, query in rows]
        return sorted(empty)

    def _answer(self, i: Tensor, q_len: int, k_len: int) -> Tensor:
        """``i: [q]`` -> bool [B or 1, H or 1, q, k_len]."""
        answer = self._on(i[:, None], torch.arange(k_len, device=i.device)[None, :], q_len, k_len)
        batch, heads = self.sizes["B"] or 1, self.sizes["H"] or 1
        return answer.expand(batch, heads, len(i), k_len)

    def _visible(self, point: Point) -> bool:
        i, j = torch.tensor([[[point.i]], [[point.j]]], device=self._home())
        answer = self._on(i, j, point.q_len, point.k_len)
        answer = answer[(None,) * (4 - answer.dim())]
        batch, head = (at if size > 1 else 0 for at, size in zip(point[4:], answer.shape[:2], strict=True))
        return bool(answer[batch, head])

    def _home(self) -> torch.device:
        """Where the first tensor of the tree lives."""
        devices = (tensor.device for leaf in self.leaves() for tensor in leaf._tensors())
        return next(devices, torch.device("cpu"))

    def _tensors(self) -> list[Tensor]:
        return []

    def _least_k_len(self) -> int:
        """The fewest keys that the lengths in the mask allow."""
        return max((leaf._least_k_len() for leaf in self.leaves() if leaf is not self), default=0)

    def _check(self, q_len: int, k_len: int) -> None:
        """Refuse lengths that are no lengths, or that the mask was not made for."""
        for axis, given in (("T_q", q_len), ("T_k", k_len)):
            fixed = self.sizes[axis]
            if whole_number(axis, given, at_least=0) != fixed and fixed is not None:
                raise SoftlookupError(
                    f"masks: {self!r} does not fit.",
                    expected=f"{axis} = {fixed}",
                    got=f"{axis} = {given}",
                    sizes={name: size for name, size in self.sizes.items() if size is not None},
                )
        for leaf in self.leaves():
            leaf._check_leaf(q_len, k_len)

    def _check_leaf(self, q_len: int, k_len: int) -> None:
        """Refuse lengths that this leaf does not fit; most fit all."""
        return

    def _check_point(self, point: Point) -> None:
        """Refuse a position, sample or head that does not exist."""
        for name, value, size in (
            ("query", point.i, point.q_len),
            ("key", point.j, point.k_len),
            ("sample", point.batch, self.sizes["B"]),
            ("head", point.head, self.sizes["H"]),
        ):
            if value < 0 or (size is not None and value >= size):
                raise SoftlookupError(
                    f"explain: there is no {name} {value}.",
                    expected="0 or more" if size is None else f"0 to {size - 1}",
                    got=str(value),
                    sizes={"T_q": point.q_len, "T_k": point.k_len},
                )
