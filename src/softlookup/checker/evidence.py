"""What was seen when a target answered the probes: the only thing a rule may judge by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from softlookup.attention import STEPS, Steps
from softlookup.checker import projecting
from softlookup.checker.calls import Failure, Recorded, Sketch
from softlookup.checker.wiring import Wiring
from softlookup.terms import Case, Contract

#: Steps of a module before and after the lookup.
AROUND = ("project", "split_heads", "merge_heads", "project_out")


@dataclass(frozen=True)
class Explained(Steps):
    """The steps, with those around them in a module, and what a rule or variant says about the whole call.

    project: (case) -> q [B, T_q, H * d_head], k and v [B, T_k, H_kv * d]: three projections of the inputs
    split_heads: [B, T, heads * d], heads -> [B, heads, T, d]
    merge_heads: [B, H, T_q, d_v] -> [B, T_q, H * d_v]
    project_out: [B, T_q, H * d_v], case -> [B, T_q, d_out]
    assume: (case) -> case: something built in that the caller did not ask for, a bias or a window
    around: (run, case) -> (output, weights): what happens before and after the steps
    """

    project: Callable[[Case], tuple[Tensor, Tensor, Tensor]] = projecting.project
    split_heads: Callable[..., Tensor] = projecting.split_heads
    merge_heads: Callable[..., Tensor] = projecting.merge_heads
    project_out: Callable[..., Tensor] = projecting.project_out
    assume: Callable[[Case], Case] | None = None
    around: Callable[..., tuple[Tensor, Tensor]] | None = None

    def __call__(self, case: Case) -> tuple[Tensor, Tensor]:
        """Return output [B, H, T_q, d_v] and weights [B, H, T_q, T_k]."""
        case = self.assume(case) if self.assume else case
        run = self._with_projections if self._projects_otherwise and case.wiring else super().__call__
        output, weights = self.around(run, case) if self.around else run(case)
        return _handed_on(output, case), weights

    @property
    def _projects_otherwise(self) -> bool:
        """True when a step around the lookup was replaced: else the case says what they come to."""
        return any(getattr(self, name) is not getattr(projecting, name) for name in AROUND)

    def _with_projections(self, case: Case) -> tuple[Tensor, Tensor]:
        case = self.projected(case)
        output, weights = super().__call__(case)
        return self.returned(output, case), weights

    def projected(self, case: Case) -> Case:
        """Return the case with the heads that the projections and the split make of its inputs."""
        heads = case.wiring.num_heads, case.wiring.num_kv_heads, case.wiring.num_kv_heads
        q, k, v = (self.split_heads(x, n) for x, n in zip(self.project(case), heads, strict=True))
        return case.but(q=q, k=k, v=v)

    def returned(self, output: Tensor, case: Case) -> Tensor:
        """[B, H, T_q, d_v] -> [B, H, T_q, shown]: merged, through the output projection, as heads again."""
        return projecting.shown_heads(self.project_out(self.merge_heads(output), case), case)

    def sees(self, case: Case) -> Tensor | None:
        """Return what is visible, with what is assumed: bool, or None for everything."""
        return self.visible(self.assume(case) if self.assume else case)


def _handed_on(output: Tensor, case: Case) -> Tensor:
    """A NaN or infinity of one head reaches every feature that the output projection makes of the token."""
    if case.wiring is None or not case.wiring.out or bool(output.isfinite().all()):
        return output
    lost = ~output.isfinite().all(dim=-1, keepdim=True).all(dim=1, keepdim=True)  # [B, 1, T_q, 1]
    return output.masked_fill(lost, torch.nan)


@dataclass(frozen=True)
class Observation:
    """One probe and the target's answer to it, both in the canonical layout."""

    probe: str  # name of the probe, e.g. "causal-padding"
    case: Case  # in the dtype that was handed over
    output: Tensor | None = None  # [B, H, T_q, d_v]; None when the call failed
    weights: Tensor | None = None  # [B, H, T_q, T_k], or [B, T_q, T_k] when averaged; None: not returned
    failure: Failure | None = None
    changed: tuple[str, ...] = ()  # arguments changed in place: "q", "k", "v", "mask"
    gradients: dict[str, Tensor] = field(default_factory=dict)  # of sum(output * cotangent): "q", "k", "v"
    cotangent: Tensor | None = None  # [B, H, T_q, d_v]
    recorded: tuple[Recorded, ...] = ()
    #: Serial number of an argument in the record -> its role.
    serials: dict[int, str] = field(default_factory=dict)
    compared: bool = True  # takes part in naming by forward values
    asked: Any = None  # the probe as it was put (abilities.Probe), to ask it once more

    @cached_property
    def cleared(self) -> Tensor | None:
        """[B, 1, T] bool: padding that answers nothing but zeros; None where it answers, or is not asked."""
        allowed, wiring = self.case.allowed_mask, self.case.wiring
        if allowed is None or wiring is None or wiring.source != "self" or allowed.shape[1:3] != (1, 1):
            return None
        padding = (~allowed[:, :, 0]).expand(self.case.q.shape[0], 1, -1)
        if self.output is None or padding.shape[-1] != self.output.shape[-2]:
            return None
        answers = self.output[padding.expand(self.output.shape[:-1])]
        return padding if answers.numel() and not answers.any() else None

    @cached_property
    def real_rows(self) -> Tensor:
        """[B, H, T_q] bool: rows that may look somewhere.

        Only these are compared: what the others return differs from one implementation to the next.
        """
        allowed = STEPS.visible(self.case)
        asking = self.case.q.isfinite().all(dim=-1)  # a broken query has no answer
        if self.case.target_mask is not None:  # what padding of the target returns is nobody's business
            asking = asking & self.case.target_mask[:, None]
        if (padding := self.cleared) is not None:
            asking = asking & ~padding
        return asking if allowed is None else allowed.any(dim=-1).expand(asking.shape) & asking


@dataclass(frozen=True)
class Evidence:
    """Every observation of one target under one contract."""

    contract: Contract
    observations: tuple[Observation, ...]
    steps: Explained = Explained()  # what explains the forward values: the reference, or a named mutant
    sketch: Sketch | None = None  # the target seen from outside: what its words and settings promise

    @property
    def wiring(self) -> Wiring | None:
        """The projections of a module; None for a function."""
        return next((seen.case.wiring for seen in self.observations), None)

    def probe(self, name: str) -> Observation | None:
        """Return the observation of this probe, or None when the contract does not allow it."""
        return next((seen for seen in self.observations if seen.probe == name), None)

    def probes(self, prefix: str) -> list[Observation]:
        """Return the observations whose probe name starts with ``prefix``."""
        return [seen for seen in self.observations if seen.probe.startswith(prefix)]

    @property
    def repeats(self) -> bool:
        """The same question has the same answer; else it is random, and no two answers tell anything."""
        found = [(seen.output, seen.real_rows) for seen in self.probes("repeat-") if seen.output is not None]
        return all(same(found[0][0][real], output[real]) for output, real in found)

    @property
    def samples_mix(self) -> bool:
        """Sample 0 has another answer when the samples beside it change; then more tokens move it as well."""
        one, other = self.probe("strided-contiguous"), self.probe("neighbours")
        if one is None or other is None or one.output is None or other.output is None:
            return False
        real = one.real_rows[0]
        return not same(one.output[0][real], other.output[0][real])

    def rows(self, seen: Observation) -> Tensor:
        """[B, H, T_q] bool: real rows that also look somewhere under the steps that explain the target."""
        allowed = self.steps.sees(seen.case)
        return seen.real_rows if allowed is None else seen.real_rows & allowed.any(dim=-1)


def same(a: Tensor, b: Tensor) -> bool:
    """Say whether two answers are the same up to what their dtype can hold; NaN equals NaN."""
    half = min(a.dtype.itemsize, b.dtype.itemsize) < 4
    tolerance = 3e-2 if half else 1e-3
    return torch.allclose(
        a.double(), b.double(), rtol=tolerance, atol=tolerance if half else 1e-4, equal_nan=True
    )


@dataclass(frozen=True)
class Judgement:
    """What a rule's ``judge`` says: the facts, and whether they are wrong or only worth a note."""

    facts: dict[str, Any]  # JSON values
    wrong: bool = True
    summary: str = ""  # replaces the rule's own first line when more exact words are known
    seen_in: Observation | None = None
