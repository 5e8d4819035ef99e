"""Reject most hypotheses by one observation, computing what several of them share only once.

Thousands of pairs differ in one step or two: scores under one scale, what one rule shows. The steps are those
of ``attention.Steps``, in the same order; what passes here is compared with every observation afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from softlookup.checker.evidence import AROUND, Explained, Observation
from softlookup.checker.hypotheses import Hypothesis
from softlookup.terms import Case

#: No rounding of float32 explains more than this share of the output's size.
_TOO_FAR = 0.02


class Sieve:
    """One observation that the reference misses, in float64."""

    def __init__(self, seen: Observation, exact: Case) -> None:
        assert seen.output is not None
        self._case = exact
        self._rows = seen.real_rows
        self._theirs = seen.output.double()
        self._known: dict[Any, Any] = {}

    def lets_through(self, hypothesis: Hypothesis) -> bool:
        """Say whether the hypothesis predicts about this answer; True where it has to be run as a whole."""
        steps = hypothesis.steps
        if steps.around is not None:
            return True
        projects = self._case.wiring is not None and any(name in hypothesis.edits for name in AROUND)
        try:
            output, allowed = self._looked_up(steps, projects)
        except (RuntimeError, IndexError, ValueError):
            return False
        if output.shape != self._theirs.shape:
            return False
        rows = self._rows if allowed is None else self._rows & self._seeing(allowed)
        error = (output - self._theirs).abs()[rows].nan_to_num(nan=0.0, posinf=0.0)
        if not error.numel():
            return True
        size = max(1.0, float(self._theirs[rows].nan_to_num(0.0, 0.0, 0.0).abs().max()))
        return float(error.max()) <= _TOO_FAR * size

    def _seeing(self, allowed: Tensor) -> Tensor:
        """[B, H, T_q]: rows that see something under the hypothesis."""
        return allowed.any(dim=-1).expand(self._rows.shape)

    def _looked_up(self, s: Explained, projects: bool) -> tuple[Tensor, Tensor | None]:
        """Return output [B, H, T_q, d_v] and what was visible, as ``Explained.__call__`` does."""
        once = self._once
        begun = (s.assume, s.project, s.split_heads) if projects else (s.assume,)
        case: Case = once(begun, lambda: self._begun(s, projects))
        k = once((begun, s.repeat_kv_heads, "k"), lambda: s.repeat_kv_heads(case.k, case))
        v = once((begun, s.repeat_kv_heads, "v"), lambda: s.repeat_kv_heads(case.v, case))
        scored = (begun, s.repeat_kv_heads, s.score, s.scale)
        scores = once(scored, lambda: s.scale(s.score(case.q, k, case), case))
        shown = (begun, s.visible)
        allowed: Tensor | None = once(shown, lambda: s.visible(case))
        shared = (scored, shown, s.hide, s.normalize, s.settle)
        weights = once(
            shared, lambda: s.settle(s.normalize(s.hide(scores, allowed, case), case), allowed, case)
        )
        output = s.mix(s.drop(weights, case), v, case)
        return s.returned(output, case) if projects else output, allowed

    def _begun(self, s: Explained, projects: bool) -> Case:
        case = self._case if s.assume is None else s.assume(self._case)
        return s.projected(case) if projects else case

    def _once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Compute what depends on these steps once; a failure is as good as an answer."""
        if key not in self._known:
            try:
                self._known[key] = make()
            except (RuntimeError, IndexError, ValueError) as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, Exception):
            raise found
        return found
