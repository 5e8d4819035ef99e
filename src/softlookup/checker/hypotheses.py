"""What a target may be doing: the reference, the reference with a rule's wrong step, or a known variant.

A hypothesis predicts answers. The diagnosis is the hypothesis whose *wrong answers* match the target's.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from softlookup import catalog
from softlookup.attention import Steps
from softlookup.catalog import Entry
from softlookup.checker.evidence import AROUND, Evidence, Explained, Observation
from softlookup.terms import Case

_STEP_NAMES = (*Steps.__dataclass_fields__, *AROUND)


@dataclass(frozen=True)
class Hypothesis:
    """The lookup with some steps replaced, and the files that replaced them."""

    entries: tuple[Entry, ...] = ()
    edits: dict[str, Any] = field(default_factory=dict)
    variant: Any = None  # which shape of the bug, for rules that have several

    @cached_property
    def steps(self) -> Explained:
        """The lookup as this hypothesis has it."""
        return Explained(**self.edits)

    @property
    def rules(self) -> tuple[Entry, ...]:
        """The bugs in it; known variants are none."""
        return tuple(entry for entry in self.entries if entry.code != "variant")

    @property
    def alone(self) -> bool:
        """True when it may not be joined with another."""
        return any(getattr(entry.load(), "ALONE", False) for entry in self.entries)

    def __call__(self, case: Case) -> Tensor:
        """Predict the output [B, H, T_q, d_v]."""
        output: Tensor = self.steps(case)[0]
        return output

    def rows(self, case: Case) -> Tensor | None:
        """[B, H, T_q] bool: rows that may look somewhere under this hypothesis; None for all."""
        if not {"visible", "assume"} & self.edits.keys():
            return None
        allowed = self.steps.sees(case)
        return None if allowed is None else allowed.any(dim=-1).expand(case.q.shape[:-1])

    def joined(self, other: Hypothesis) -> list[Hypothesis]:
        """Both at once. Where they replace the same step either may win, if each keeps one of its own."""
        shared = self.edits.keys() & other.edits.keys()
        if not (self.edits.keys() - shared and other.edits.keys() - shared) or {"around", "assume"} & shared:
            return []
        merged = [self.edits | other.edits] + ([other.edits | self.edits] if shared else [])
        variant = self.variant if self.variant is not None else other.variant
        return [Hypothesis(self.entries + other.entries, edits, variant) for edits in merged]


REFERENCE = Hypothesis()

#: Probes with scores so large that rounding alone moves the weights, and beyond what a finite fill was
#: chosen for.
STRAINED = frozenset({"large", "overflow", "large-masked", "huge-masked", "huge-causal", "long"})


def _edits(module: ModuleType) -> dict[str, Any]:
    """A rule breaks the steps whose names it *defines*; what it imports does not count."""
    own = {
        name: value
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__
    }
    return {name: own[name] for name in (*_STEP_NAMES, "around", "assume") if name in own}


def hypotheses_of(entry: Entry, evidence: Evidence) -> Iterator[Hypothesis]:
    """Return one hypothesis for each shape of a rule or variant."""
    module = entry.load()
    edits = _edits(module)
    if not edits or (edits.keys() <= set(AROUND) and evidence.wiring is None):
        return
    variants = getattr(module, "VARIANTS", (None,))
    for variant in variants(evidence) if callable(variants) else variants:
        bound = {
            name: partial(step, variant=variant) if "variant" in inspect.signature(step).parameters else step
            for name, step in edits.items()
        }
        yield Hypothesis((entry,), bound, variant)


def singles(evidence: Evidence) -> list[Hypothesis]:
    """Every rule in every shape."""
    return [h for entry in catalog.rules() for h in hypotheses_of(entry, evidence)]


def known_variants(evidence: Evidence, words: str, source: str, *, last: bool = False) -> list[Hypothesis]:
    """Known variants. ``WORDS`` must be declared in a name or docstring; ``HINTS`` occur in the source, or in
    the names of weights.

    last: only those that explain too much to be asked before the rules (``LAST = True``); else all others
    """
    found: list[Hypothesis] = []
    weights = evidence.sketch.weights if evidence.sketch is not None else ()
    text = " ".join([source, *(weight.name for weight in weights)]).lower()
    for entry in catalog.variants():
        module = entry.load()
        if getattr(module, "LAST", False) != last:
            continue
        declared, hinted = getattr(module, "WORDS", ()), getattr(module, "HINTS", ())
        asked = any(word in words for word in declared) or any(word in text for word in hinted)
        if asked or not (declared or hinted):
            found += hypotheses_of(entry, evidence)
    return found


def pairs(first: list[Hypothesis], second: list[Hypothesis]) -> Iterator[Hypothesis]:
    """Every two that replace different steps and come from different files.

    A rule with ``ALONE = True`` takes no partner: it drops so much that two of them would explain anything.
    """
    first, second = ([h for h in group if not h.alone] for group in (first, second))
    source = combinations(first, 2) if first == second else ((a, b) for a in first for b in second)
    for a, b in source:
        if a.entries != b.entries:
            yield from a.joined(b)


def effective(
    hypotheses: list[Hypothesis], scale: Scale, ordered: Sequence[Observation], failing: set[str]
) -> list[Hypothesis]:
    """Leave out those that change nothing here, and shapes of a rule that predict the same as another shape.

    ordered: every compared observation
    failing: the probes that the reference misses: a hypothesis must change one of them
    """
    told_twice = STRAINED | {"wide", "long-square"}  # these ask nothing that a smaller one does not ask
    small = [
        s for s in ordered if s.probe not in told_twice and not s.probe.startswith("gradients")
    ] or ordered[:3]
    nothing = [_rounded(REFERENCE, scale.exact(seen.case)) for seen in small]
    kept: dict[Any, Hypothesis] = {}
    for hypothesis in hypotheses:
        predicted = tuple(_rounded(hypothesis, scale.exact(seen.case)) for seen in small)
        moved = {seen.probe for seen, a, b in zip(small, predicted, nothing, strict=True) if a != b}
        # Where the target is right, what it does wrong must not show.
        if moved and moved <= failing:
            kept.setdefault((hypothesis.entries, predicted), hypothesis)
    return list(kept.values())


def _rounded(hypothesis: Hypothesis, case: Case) -> tuple[float, ...]:
    try:
        output = hypothesis(case)
    except (RuntimeError, IndexError, ValueError):
        return ()
    return tuple(output.nan_to_num(nan=1e9, posinf=2e9, neginf=-2e9).flatten().round(decimals=4).tolist())


@dataclass(frozen=True)
class Fit:
    """How well a hypothesis predicts one observation."""

    fits: bool
    error: float = 0.0
    rows: int = 0
    finite: bool = True  # some numbers were compared, and not only where NaN stands


class Scale:
    """Compares predictions with observations; the tolerance belongs to each hypothesis and dtype.

    A hypothesis is run in float64 and once more in the tested dtype: the difference is the rounding that
    anybody doing this computation must be granted, in the mean and at most.
    """

    def __init__(self) -> None:
        self._cases: dict[int, Case] = {}

    def exact(self, case: Case) -> Case:
        """Return the case in float64, made once."""
        if id(case) not in self._cases:
            self._cases[id(case)] = case.double()
        return self._cases[id(case)]

    def compare(self, seen: Observation, hypothesis: Hypothesis) -> Fit:
        """Say whether the observation is what the hypothesis predicts, on rows that may look somewhere."""
        assert seen.output is not None
        try:
            exact = hypothesis(self.exact(seen.case))
            rows = seen.real_rows
            own_rows = hypothesis.rows(seen.case)
        except (RuntimeError, IndexError, ValueError):
            return Fit(False, float("inf"))
        if exact.shape != seen.output.shape:
            return Fit(False, float("inf"))
        rows = rows if own_rows is None else rows & own_rows
        count = int(rows.sum())
        if count == 0:
            return Fit(True)
        theirs, ours = seen.output.double()[rows], exact[rows]
        error = (theirs - ours).abs()
        eps = torch.finfo(seen.output.dtype).eps
        half = eps > 1e-4
        size = max(1.0, float(ours.nan_to_num(0.0, 0.0, 0.0).abs().max()))
        if not half and float(error.max()) <= 16 * eps * size:  # NaN compares false
            return Fit(True, float(error.max()), count)
        if (
            not half and seen.probe not in STRAINED and float(error.max()) > 0.02 * size
        ):  # no rounding of float32 explains this
            return Fit(False, float(error.max()), count)
        try:
            low = hypothesis(seen.case).double()[rows]
        except (RuntimeError, IndexError, ValueError):
            return Fit(False, float("inf"), count)
        lost, gone = ~torch.isfinite(low), ~torch.isfinite(theirs)
        if seen.probe in STRAINED:
            # Which entry of a row overflows first depends on the order of the sums: judge whole rows, nearly.
            lost, gone = (bad.any(dim=-1, keepdim=True).expand(bad.shape) for bad in (lost, gone))
            if float((lost ^ gone).sum()) <= 0.25 * float(lost.sum()):
                lost = gone = lost | gone
        if not torch.equal(lost, gone):
            return Fit(False, float("inf"), count)
        if bool(lost.all()):
            return Fit(True, 0.0, count, finite=False)
        if eps < 1e-10:  # the hypothesis has no rounding of its own to go by; meaning shows far above this
            worst = float(error[~lost].max())
            return Fit(worst <= 1e-5 * size, worst, count)  # tables of a module may be made in float32
        own = (low - ours).abs()[~lost]
        error = error[~lost]
        at_most = (
            (2 * float(own.max()) + 4 * eps * size) if half else (8 * float(own.max()) + 64 * eps * size)
        )
        mean = (2 * float(own.mean()) + 0.6 * eps * size) if half else at_most
        worst = float(error.max())
        return Fit(worst <= at_most and float(error.mean()) <= mean, worst, count)


def explains(
    scale: Scale, observations: Sequence[Observation], hypothesis: Hypothesis, failing: set[str]
) -> float | None:
    """Return the largest error when every observation is predicted; None otherwise.

    The observations that the reference does not predict come first, and some of their rows must really be
    compared.
    """
    worst, compared, finite = 0.0, 0, False
    for seen in observations:
        fit = scale.compare(seen, hypothesis)
        if not fit.fits:
            return None
        worst = max(worst, fit.error)
        compared += fit.rows if seen.probe in failing else 0
        finite = finite or (fit.finite and fit.rows > 0)
    return worst if finite and (compared or not failing) else None
