"""What each dropout of a module does to the shares: with fewer keys than features they are solved for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from softlookup.checker.evidence import Evidence, Observation

_ZERO = 1e-7


@dataclass(frozen=True)
class Dropped:
    """One output in training mode, taken apart."""

    seen: Observation
    weights: Tensor  # [B, H, T_q, T_k] shares without dropout
    shares: Tensor  # [B, H, T_q, T_k] shares that this output shows, from its features that are not 0
    zero_features: Tensor  # [B, H, T_q] features that are exactly 0
    solved: Tensor  # [B, H, T_q] bool: enough features are left to tell the shares
    unchanged: bool
    finite: bool

    @cached_property
    def moved(self) -> Tensor:
        """[B, H, T_q] bool: rows whose shares keep other proportions: some key was dropped, or its score."""
        ratio = self.shares / self.weights.clamp(min=1e-9)
        counted = self.weights > 1e-4
        most, least = ratio.masked_fill(~counted, -torch.inf), ratio.masked_fill(~counted, torch.inf)
        size = ratio.masked_fill(~counted, 0.0).abs().amax(-1)
        return (most.amax(-1) - least.amin(-1) > 1e-2 * size) & self.solved

    @property
    def sums(self) -> Tensor:
        """[rows moved]: sums of their shares; 1 after a softmax, and not after dropout."""
        return self.shares.sum(-1)[self.moved]


@dataclass(frozen=True)
class Dropping:
    """One dropout of a module, the others being off: what it does in training mode."""

    kind: str  # e.g. "attn_drop"
    passes: tuple[Dropped, ...]
    after_projection: bool  # features are 0 even behind an output projection that mixes all of them

    @property
    def idle(self) -> bool:
        """It changes nothing."""
        return all(one.unchanged for one in self.passes)

    @property
    def breaks(self) -> bool:
        """It makes NaN of what is finite."""
        return any(not one.finite for one in self.passes)

    @property
    def moves_shares(self) -> bool:
        """Weights or scores are dropped."""
        return any(bool(one.moved.any()) for one in self.passes)

    @property
    def moves_scores(self) -> bool:
        """Rows have other shares in several passes, and each still sums to one."""
        sums = [one.sums for one in self.passes if one.moved.any()]
        return len(sums) > 1 and all(bool(((s - 1).abs() < 2e-3).all()) for s in sums)

    @property
    def drops_features(self) -> bool:
        """Features of the mixed output are 0, the others keep the shares, and no projection came before."""
        zero = any(bool(one.zero_features.any()) for one in self.passes)
        return zero and not (self.after_projection or self.moves_shares or self.breaks)


def each_dropout(evidence: Evidence) -> list[Dropping]:
    """Return what each dropout does; none when there is none, or the outputs cannot be solved for."""
    kinds: dict[str, list[Dropped]] = {}
    for seen in evidence.probes("training-"):
        one = _taken_apart(evidence, seen)
        if one is not None:
            kinds.setdefault(_kind(seen), []).append(one)
    behind = evidence.probes("mixed-training-")
    after = {_kind(s) for s in behind if s.output is not None and bool((s.output.abs() < _ZERO).any())}
    return [Dropping(kind, tuple(passes), kind in after) for kind, passes in kinds.items()]


def _kind(seen: Observation) -> str:
    """Read "training-KIND-SEED"."""
    return seen.probe.partition("training-")[2].rpartition("-")[0]


def _taken_apart(evidence: Evidence, seen: Observation) -> Dropped | None:
    case = seen.case.double()
    if seen.output is None or case.v.shape[-1] < case.k.shape[-2] + 2:
        return None
    eval_output, weights = evidence.steps(case)
    if not eval_output.isfinite().all():
        return None
    output = seen.output.double()
    values = case.v.repeat_interleave(case.q.shape[1] // case.v.shape[1], dim=1)  # [B, H, T_k, d_v]
    zero = (output.abs() < _ZERO) & (eval_output.abs() > _ZERO)
    return Dropped(
        seen,
        weights,
        _solved(output.nan_to_num(0.0), values, zero),
        zero_features=zero.sum(-1),
        solved=(~zero).sum(-1) > case.k.shape[-2],
        unchanged=torch.allclose(output, eval_output, rtol=1e-3, atol=1e-4),
        finite=bool(output.isfinite().all()),
    )


def _solved(output: Tensor, values: Tensor, zero: Tensor) -> Tensor:
    """[B, H, T_q, T_k]: least-squares shares of every row, from the features that are not 0."""
    kept = (~zero).double()[..., None]  # [B, H, T_q, d_v, 1]
    system = values.transpose(-2, -1)[:, :, None] * kept  # [B, H, T_q, d_v, T_k]
    shares: Tensor = torch.linalg.pinv(system) @ (output[..., None] * kept)
    return shares[..., 0]
