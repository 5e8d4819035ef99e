"""What a target lets us ask, and one question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from softlookup.checker.wiring import Wiring
from softlookup.terms import Case, Corner


@dataclass(frozen=True)
class Dropout:
    """The dropout that a module was built with."""

    parts: tuple[str, ...]  # parts of it that drop, and hold no rate that can be set
    settings: tuple[str, ...]  # rates: of its Dropout modules, and those that it hands to functions

    @property
    def off(self) -> dict[str, Any]:
        """Return what a probe sets so that nothing is dropped."""
        return self._without(set())

    @property
    def each(self) -> dict[str, dict[str, Any]]:
        """Return, for each dropout, what a probe sets so that it alone drops.

        Those of several heads or layers count as one: "heads.0.drop.p" and "heads.1.drop.p" are "heads.drop".
        """
        kinds: dict[str, set[str]] = {}
        for path in (*self.parts, *self.settings):
            steps = [step for step in path.removesuffix(".p").split(".") if not step.isdigit()]
            kinds.setdefault(".".join(steps), set()).add(path)
        return {kind: self._without(paths) for kind, paths in kinds.items()}

    def _without(self, kept: set[str]) -> dict[str, Any]:
        return {
            "bypassed": tuple(path for path in self.parts if path not in kept),
            "settings": tuple((path, 0.0) for path in self.settings if path not in kept),
        }


@dataclass(frozen=True)
class Abilities:
    """What a target lets us ask. Probes are built from this: nothing is asked that it never promised."""

    batch: bool = True
    heads: bool = True
    one_kv_head: bool = False  # keys and values have no head axis
    grouped: bool = False  # H_kv < H
    rectangular: bool = True  # T_q != T_k
    own_value_width: bool = True  # d_v != d_head
    one_source: bool = False  # q, k and v are the same tensor
    mask_axes: frozenset[str] = frozenset()  # of B, H, T_q, T_k; empty: takes no mask
    mask_always: bool = False  # cannot be called without a mask
    integer_mask: bool = False
    bias: bool = False
    causal: bool = False  # causality can be asked for by an argument
    always_causal: bool = False
    causal_unless_masked: bool = False  # a given mask replaces the built-in causal rule
    corner: Corner = "top-left"
    scale: bool = False
    fixed_scale: float | None = None
    window: bool = False  # a window can be asked for by an argument
    fixed_window: int | None = None
    window_ahead: bool = False
    window_ahead_alone: bool = False  # without the causal rule the window reaches forward too
    documents: bool = False
    target_mask: bool = False  # a mask of the queries' own tokens can be given beside a memory
    gradients: bool = True
    max_score: float = 3e4  # scores may get this large
    wiring: Wiring | None = None  # of a module with projections: they fix the sizes
    dropout: Dropout | None = None  # where a module holds its dropout
    longest: int | None = None  # most tokens that its tables are made for
    grid: bool = False  # tokens are the pixels of an image: their number is even


@dataclass(frozen=True)
class Probe:
    """One question: a case, and what else to look at while it is answered."""

    name: str
    case: Case
    backward: bool = False
    strided: bool = False
    integer_mask: bool = False
    training: bool = False  # put a module in training mode
    seed: int = 0  # of the random numbers that the target may draw
    bypassed: tuple[str, ...] = ()  # parts of a module that hand on their input
    settings: tuple[tuple[str, Any], ...] = ()  # attributes of a module set for this question
    arguments: tuple[tuple[str, Any], ...] = ()  # optional switches given for this question
    after: Case | None = None  # what a module is given in a call before, where it remembers
    out: str = (
        ""  # the output projection of a module: "negated", "mixed" (orthogonal), "zero", "" picks the heads
    )
    compared: bool = True  # part of naming by forward values; the rest is for the rules that judge
