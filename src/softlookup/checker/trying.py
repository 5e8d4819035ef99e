"""Try a guess on a target: ask, compare with the reference, say why nothing worked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from softlookup.attention import STEPS
from softlookup.checker.abilities import Probe
from softlookup.checker.calls import Parameter, Target
from softlookup.checker.evidence import Observation
from softlookup.checker.plan import Plan, ask
from softlookup.checker.probes import plain_case, suite
from softlookup.checker.reading import Reading
from softlookup.checker.results import leaves
from softlookup.terms import Case, Contract, SoftlookupError


class CannotAdaptError(SoftlookupError):
    """No way was found to call the target; the words say what was tried."""

    line: int | None = None  # where most attempts failed


def distance(seen: Observation, case: Case | None = None) -> float:
    """Largest difference from the reference over real rows; infinite when there is no comparable output."""
    if seen.output is None:
        return float("inf")
    case = case or seen.case
    wanted = STEPS(case.double())[0]
    allowed = STEPS.visible(case)
    rows = slice(None) if allowed is None else allowed.any(-1).expand(case.q.shape[:-1])
    difference = (seen.output.double() - wanted)[rows].abs()
    return (
        float("inf") if difference.isnan().any() else float(difference.max()) if difference.numel() else 0.0
    )


@dataclass(frozen=True)
class Trial:
    """One guess and how the target took it."""

    plan: Plan
    seen: Observation
    error: float
    rank: int

    @property
    def ran(self) -> bool:
        """True when an output came back."""
        return self.seen.output is not None


def reason_of(seen: Observation, result: Any) -> str:
    """Return in words why an answer is no output: what was raised, or what came instead."""
    if seen.failure is not None:
        where = f" (line {seen.failure.line})" if seen.failure.line else ""
        first = seen.failure.message.partition("\n")[0][:160]
        return f"{seen.failure.kind}: {first}{where}"
    shapes = [tuple(leaf.shape) for leaf in leaves(result)]
    if shapes:
        return f"a result of shape {shapes}"
    return f"a result without tensors: {result}"[:120] if result is not None else "no result (None)"


def failed(seen: Observation, result: Any = None) -> tuple[str, int | None]:
    """Return why an answer is no output, and on which line of the target."""
    return reason_of(seen, result), seen.failure.line if seen.failure else None


_LAYOUTS = ("B H T d", "B T H d", "B T d", "T d", "H T d", "T H d", "(B H) T d", "T B d", "B H d T", "B d T")
_FOLDED = ("B T (H d)", "T B (H d)", "T (H d)")


def candidate_layouts(reading: Reading) -> tuple[str, ...]:
    """Return the declared layout, or all that are worth a try."""
    if reading.layouts:
        return reading.layouts[:1]
    if "heads" in reading.roles.values():
        return (*_FOLDED, *_LAYOUTS)
    return _LAYOUTS


class Trying:
    """A target, what it says of itself, and how to ask it one thing."""

    def __init__(self, target: Target, reading: Reading, declared: Contract) -> None:
        self.target = target
        self.sketch = target.sketch
        self.reading = reading
        self.declared = declared
        self.parameters = target.sketch.parameters
        if self.parameters and {p.kind for p in self.parameters} <= {"*args", "**kwargs"}:
            # A decorator that hides the signature: three tensors by position.
            self.parameters = tuple(Parameter(name, "positional-only", True) for name in ("q", "k", "v"))
            self.reading = replace(reading, roles={"q": "q", "k": "k", "v": "v"})
        self.dtype: torch.dtype = getattr(torch, declared.dtype or "float32")
        # Answers either agree to about 1e-6, in half precision 1e-2, or differ by far more than this.
        self.tolerance = 1e-3 if self.dtype.itemsize >= 4 else 5e-2

    def attempt(self, plan: Plan, name: str, *, case: Case | None = None) -> Observation:
        """Put one case, by default the probe of this name."""
        return self.ask(plan, Probe(name, case or self.case(plan, name)))[0]

    def ask(self, plan: Plan, *probes: Probe) -> list[Observation]:
        """Put several in one batch, one observation each; without output where it cannot be asked."""
        seen = {s.probe: s for s in ask(self.target, plan, list(probes))}
        return [seen.get(probe.name) or Observation(probe.name, probe.case) for probe in probes]

    def case(self, plan: Plan, name: str) -> Case:
        """Return the case of a probe."""
        if name == "plain":
            return plain_case(plan.abilities, self.dtype)
        return next(probe.case for probe in suite(plan.abilities, self.dtype) if probe.name == name)


def _not_understood(trying: Trying) -> str:
    known = trying.reading.roles
    strange = [p.name for p in trying.sketch.parameters if p.required and p.name not in known]
    return f"{', '.join(strange)}: no default, and no meaning that is known here" if strange else ""


def cannot_adapt(trying: Trying, failures: list[tuple[str, int | None]]) -> CannotAdaptError:
    """Return the error that says what was tried, and what stopped the attempt that came furthest."""
    common = (
        max(failures, key=lambda failure: (failure[1] or 0, failures.count(failure)))
        if failures
        else ("", None)
    )
    problem = CannotAdaptError(
        f"{trying.sketch.name}: no way was found to call it as attention.",
        expected="an output with the query's axes and the values' width, for one of the layouts "
        + ", ".join(candidate_layouts(trying.reading)),
        got=common[0]
        or _not_understood(trying)
        or f"parameters ({', '.join(p.name for p in trying.sketch.parameters)})",
        hint="declare it: --layout 'B H T d', or wrap it in a function f(q, k, v, allowed_mask=None)",
    )
    problem.line = common[1]
    return problem
