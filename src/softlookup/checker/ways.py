"""One way to call a module whose projections are unknown: which argument is what, layouts and widths.

Every size is unlike the others, so that the axes of an output can be told apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from softlookup.checker.calls import Backward, Call, Parameter, Value
from softlookup.checker.plain_values import values_by_role
from softlookup.checker.results import leaves, path_of
from softlookup.terms import Case

B, T, T_MEMORY = 7, 8, 11

#: Roles of arguments that tell positions: some modules need them although their default is None.
POSITIONS = frozenset(["rotary", "cos", "sin", "positions"])


@dataclass(frozen=True)
class Tokens:
    """One input: its layout, e.g. "B T d" or "B d Y X", how many tokens (or the sides), and its width."""

    layout: str
    sizes: tuple[int, ...]
    width: int

    @property
    def count(self) -> int:
        """How many tokens a sample has; pixels of an image are tokens."""
        return prod(self.sizes)

    @property
    def batch(self) -> int:
        """How many samples there are."""
        return B if "B" in self.layout.split() else 1

    def random(self, seed: int) -> Tensor:
        """[B, T, width] fixed random numbers."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(self.batch, self.count, self.width, generator=generator)

    def laid_out(self, tokens: Tensor) -> Tensor:
        """[B, T, width] -> the layout."""
        axes = [axis for axis in self.layout.split() if axis != "X"]
        found = tokens if "B" in axes else tokens[0]
        names = ["B", "T", "d"] if "B" in axes else ["T", "d"]
        moved = found.permute([names.index("T" if axis == "Y" else axis) for axis in axes])
        if "Y" in axes:
            place = axes.index("Y")
            moved = moved.reshape(*moved.shape[:place], *self.sizes, *moved.shape[place + 1 :])
        return moved.contiguous()

    def canonical(self, found: Tensor) -> Tensor:
        """The layout -> [B, T, width]."""
        axes = self.layout.split()
        if "Y" in axes:
            place = axes.index("Y")
            found, axes = found.flatten(place, place + 1), [axis for axis in axes if axis != "X"]
        axes = ["T" if axis == "Y" else axis for axis in axes]
        if "B" not in axes:
            found, axes = found[None], ["B", *axes]
        return found.permute([axes.index(axis) for axis in ("B", "T", "d")])


@dataclass(frozen=True)
class Way:
    """How to call a module, and how to read what it returns."""

    parameters: tuple[Parameter, ...]
    roles: dict[str, str]  # "x" and "memory" are the inputs
    x: Tokens
    memory: Tokens | None = None
    d_head: int = 8
    style: tuple[int, ...] = (0, 0, 0)  # which of several plain values positions, masks and biases get
    filled: bool = False  # positions are given although they may be left out
    open_value: bool | None = None  # what a required mask is made of so that it hides nothing
    weights: dict[str, Tensor] = field(default_factory=dict, compare=False)  # given instead of zeros
    path: tuple[int | str, ...] = ()  # where the output sits in the result
    #: Whose tokens the rows of the output are: "x", "memory", or "" when their number is fixed.
    follows: str = ""

    def but(self, **changes: Any) -> Way:
        """Return the way with some fields changed."""
        return replace(self, **changes)

    @property
    def rows(self) -> Tokens | None:
        """The input whose tokens the rows of the output are."""
        return {"x": self.x, "memory": self.memory}.get(self.follows)

    @property
    def keys(self) -> Tokens:
        """The input that is looked at."""
        return self.memory or self.x

    def call(
        self, x: Tensor, memory: Tensor | None = None, given: dict[str, Value] | None = None, **options: Any
    ) -> Call | None:
        """Write a call; None when an argument has no value that is known here.

        x [B, T, width], memory [B, T_memory, width]; given: further arguments
        """
        given = given or {}
        inputs = {"x": self.x.laid_out(x)}
        if self.memory is not None:
            inputs["memory"] = self.memory.laid_out(self.memory.random(2) if memory is None else memory)
        args: list[Value] = []
        kwargs: dict[str, Value] = {}
        for parameter in self.parameters:
            name, role = parameter.name, self.roles.get(parameter.name, "")
            if name in given:
                value = given[name]
            elif role in inputs:
                value = inputs[role]
            elif parameter.kind.startswith("*") or not (parameter.required or self._fills(role)):
                continue
            else:
                values = self._plain(name, role)
                if not values:
                    return None
                style = self.style[{"mask": 1, "bias": 2}.get(role, 0)]
                value = values[min(style, len(values) - 1)]
            if parameter.kind == "positional-only":
                args.append(value)
            else:
                kwargs[name] = value
        return Call(tuple(args), kwargs, weights=self.weights, **options)

    def _fills(self, role: str) -> bool:
        return self.filled and role in POSITIONS

    def _plain(self, name: str, role: str) -> list[Value]:
        """Values of a required argument that is no input, the likeliest first; none when it is strange."""
        sides = {"h": 2, "height": 2, "w": self.x.count // 2, "width": self.x.count // 2}
        if name.lower() in sides and len(sides.keys() & {p.name.lower() for p in self.parameters}) == 2:
            return [sides[name.lower()]]
        zeros = torch.zeros(self.x.batch, 1, self.x.count, self.d_head)
        case = Case(zeros, zeros, zeros)
        known = values_by_role(name, case)
        count = self.keys.count
        nothing_added = torch.zeros(self.x.count, count)
        values: dict[str, list[Value]] = {
            "mask": self._open_masks(),
            "bias": [None, nothing_added],
            "lengths": [torch.full((self.x.batch,), count)],
            "positions": [known["positions"], known["positions"][0], 0],
            "rotary": [known["rotary"], _turns(case), _turns(case)[None, :, None], known["cos"]],
            "need_weights": [False],
            "residual": [self.x.laid_out(torch.zeros(self.x.batch, self.x.count, self.x.width))],
        }
        if role in {"cache", "unused", "target_mask"}:
            return [None]
        if role in values:
            return values[role]
        return [known[role]] if role in known else []

    def _open_masks(self) -> list[Value]:
        """A required mask that hides nothing, in every shape."""
        samples, rows, count = self.x.batch, self.x.count, self.keys.count
        shapes = [(rows, count), (samples, count), (samples, rows, count), (samples, 1, rows, count)]
        if self.open_value is None:
            return [
                None,
                torch.zeros(rows, count),
                *(torch.ones(shape, dtype=torch.bool) for shape in shapes[1:]),
            ]
        fills = [torch.full(shape, self.open_value) for shape in shapes]
        return [None, fills[1], fills[2], fills[0], fills[3], *(fill.float() for fill in fills)]

    def strange(self) -> list[str]:
        """Return the required arguments that are not understood."""
        return [
            p.name
            for p in self.parameters
            if p.required
            and not p.kind.startswith("*")
            and self.roles.get(p.name) not in {"x", "memory"}
            and not self._plain(p.name, self.roles.get(p.name, ""))
        ]

    def read(self, result: Value) -> Tensor | None:
        """[B, rows, features]: the output of a result; None when it has another shape than before."""
        for step in self.path:
            try:
                result = result[step]
            except (KeyError, IndexError, TypeError):
                return None
        return self._canonical(result) if isinstance(result, Tensor) else None

    def reads(self, result: Value) -> Way | None:
        """Return the way with the place of the output in a result; None when nothing there is one."""
        fixed: Way | None = None
        for leaf in leaves(result):
            if not leaf.is_floating_point():
                continue
            path = path_of(result, leaf) or ()
            for follows in ("x", "memory", ""):
                way = self.but(path=path, follows=follows)
                if (follows and way.rows is None) or way.read(result) is None:
                    continue
                if follows:
                    return way
                fixed = fixed or way
        return fixed

    def _canonical(self, leaf: Tensor) -> Tensor | None:
        axes = self.x.layout.split()
        if "B" in axes:
            places = [place for place, size in enumerate(leaf.shape) if size == B]
            if not places or leaf.dim() == len(places) == 2:  # no sample, or samples against samples
                return None
            leaf = leaf.movedim(axes.index("B") if axes.index("B") in places else places[0], 0)
        else:
            leaf = leaf[None]
        rows = self.rows
        if rows is None:  # pooled, or a fixed number of rows
            return leaf[:, None] if leaf.dim() == 2 else leaf.flatten(2) if leaf.dim() > 2 else None
        if len(rows.sizes) == 2 and leaf.dim() > 3:
            for place in (leaf.dim() - 2, 1):
                if leaf.shape[place : place + 2] == rows.sizes:
                    leaf = leaf.flatten(place, place + 1)
                    break
        found = [place for place in range(1, leaf.dim()) if leaf.shape[place] == rows.count]
        return leaf.movedim(found[0], 1).flatten(2) if len(found) == 1 and leaf.dim() > 2 else None

    def backward(self, result: Value, cotangent: Tensor) -> Backward:
        """Ask for the gradient of the inputs of sum(output * cotangent); cotangent [B, rows, features]."""
        leaf = result
        for step in self.path:
            leaf = leaf[step]
        places = self.read(_numbered(result, leaf))
        assert places is not None
        flat = torch.zeros(leaf.numel())
        flat[places.flatten().long()] = cotangent.flatten()
        names = tuple(p.name for p in self.parameters if self.roles.get(p.name) == "x")
        return Backward(self.path, flat.view(leaf.shape), names[:1])

    def described(self) -> str:
        """Return how the module is called, in words."""
        return ", ".join(
            f"{role}={name}" if role != name else name
            for name, role in self.roles.items()
            if role in {"x", "memory"}
        )


def _numbered(result: Value, leaf: Tensor) -> Value:
    """The result with the places of its output as numbers."""
    if result is leaf:
        return torch.arange(leaf.numel(), dtype=torch.float64).view(leaf.shape)
    if isinstance(result, dict):
        return {key: _numbered(value, leaf) for key, value in result.items()}
    return [_numbered(value, leaf) for value in result] if isinstance(result, list | tuple) else result


def _turns(case: Case) -> Tensor:
    """[T, d_head / 2] complex: rotations by position."""
    count, d = case.q.shape[-2:]
    rates = 10000.0 ** (-torch.arange(0, d - d % 2, 2) / d)
    angles = torch.outer(torch.arange(count), rates)
    return torch.polar(torch.ones_like(angles), angles)
